// A Go product that uses Trunkline's providers: it lists them, and asks one, whole and streamed.
//
// Environment: DAEMON_URL and DAEMON_SECRET of `trunkline daemon`; PROVIDER and MODEL to ask; PROVIDER_KEY, where the provider needs one.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	core "github.com/xibodev/llmgw-core"
	"github.com/xibodev/llmgw-core/extension"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	client, err := extension.NewClient(extension.Config{BaseURL: os.Getenv("DAEMON_URL"), Secret: os.Getenv("DAEMON_SECRET")})
	if err != nil {
		return err
	}
	var credential *core.Credential // the product's own; Trunkline has none for it
	if key := os.Getenv("PROVIDER_KEY"); key != "" {
		credential = &core.Credential{APIKey: key}
	}
	info, err := client.Info(ctx)
	if err != nil {
		return err
	}
	for _, served := range info.Providers {
		rows, err := extension.NewProvider(client, served).ListModels(ctx, credential)
		if err != nil {
			fmt.Printf("%s: %v\n", served.ID, err)
		}
		for _, row := range rows {
			fmt.Printf("%s/%s %v\n", served.ID, row.ID, row.SupportedAPIs)
		}
	}

	request := core.Request{
		Surface:     core.ModelSurfaceChatCompletions,
		Model:       os.Getenv("MODEL"),
		Body:        []byte(`{"messages": [{"role": "user", "content": "hello from Go"}]}`),
		ContentType: core.ContentTypeJSON,
		Credential:  credential,
	}
	ctx = extension.WithTimeout(ctx, 90*time.Second) // for the answer's beginning, and for each pause in it
	response, err := client.Invoke(ctx, os.Getenv("PROVIDER"), request)
	if err != nil {
		return err
	}
	fmt.Printf("whole: %s\n", response.Body)

	stream, err := client.Stream(ctx, os.Getenv("PROVIDER"), request)
	if err != nil {
		return err
	}
	defer stream.Close()
	for {
		record, err := stream.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Printf("record: %s", record)
	}
}
