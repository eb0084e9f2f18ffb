// Go's encoding/json on the contract's messages: for each line of stdin,
// {"kind": NAME, "data": TEXT}, one line {"json": TEXT, "error": BOOL} with
// what the data reads as, written again. Data that is empty is the zero value.
package main

import (
	"bufio"
	"encoding/json"
	"os"

	"github.com/xibodev/llm-provider-auth/tokenstore"
	core "github.com/xibodev/llmgw-core"
	"github.com/xibodev/llmgw-core/extension"
	"github.com/xibodev/llmgw-core/oauthflow"
)

func zero(kind string) any {
	switch kind {
	case "InfoResponse":
		return &extension.InfoResponse{}
	case "ModelsResponse":
		return &extension.ModelsResponse{}
	case "ModelInfo":
		return &core.ModelInfo{}
	case "RefreshRequest":
		return &extension.RefreshRequest{}
	case "RefreshResponse":
		return &extension.RefreshResponse{}
	case "OAuthStartRequest":
		return &extension.OAuthStartRequest{}
	case "OAuthStartResponse":
		return &extension.OAuthStartResponse{}
	case "OAuthPollRequest":
		return &extension.OAuthPollRequest{}
	case "OAuthPollResponse":
		return &extension.OAuthPollResponse{}
	case "OAuthExchangeRequest":
		return &extension.OAuthExchangeRequest{}
	case "OAuthExchangeResponse":
		return &extension.OAuthExchangeResponse{}
	case "ErrorResponse":
		return &extension.ErrorResponse{}
	case "Record":
		return &tokenstore.Record{}
	case "Flow":
		return &oauthflow.Flow{}
	case "Authorization":
		return &oauthflow.Authorization{}
	case "Loss":
		return &core.Loss{}
	}
	panic(kind)
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked struct{ Kind, Data string }
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		value := zero(asked.Kind)
		var failed error
		if asked.Data != "" {
			failed = json.Unmarshal([]byte(asked.Data), value)
		}
		written, err := json.Marshal(value)
		if err != nil {
			panic(err)
		}
		_ = out.Encode(map[string]any{"json": string(written), "error": failed != nil})
	}
}
