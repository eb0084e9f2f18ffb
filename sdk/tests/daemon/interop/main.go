// Interop probe for the extension daemon protocol.
//
//	go run . check   talks to DAEMON_URL with the real extension.Client and
//	                 prints one JSON object per check on stdout
//	go run . serve   is a small loopback daemon made of the module's own types
//	                 and header helpers, to test a client written elsewhere
//
// Environment of check: DAEMON_URL, DAEMON_SECRET, PROVIDER (serves
// chat_completions), and optionally SPEECH_PROVIDER, OAUTH_PROVIDER, MODEL.
// Environment of serve: DAEMON_SECRET, PORT (0 picks one).
//
// What the daemon under test must do for the checks to pass is listed in
// section J of the daemon contract ("fixture rules").
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/xibodev/llm-provider-auth/tokenstore"

	core "github.com/xibodev/llmgw-core"
	"github.com/xibodev/llmgw-core/extension"
	"github.com/xibodev/llmgw-core/oauthflow"
)

var out = json.NewEncoder(os.Stdout)
var failed bool

func report(name string, ok bool, detail any) {
	failed = failed || !ok
	_ = out.Encode(map[string]any{"check": name, "ok": ok, "detail": detail})
}

func env(name, fallback string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return fallback
}

func main() {
	mode := "check"
	if len(os.Args) > 1 {
		mode = os.Args[1]
	}
	switch mode {
	case "check":
		check()
		if failed {
			os.Exit(1)
		}
	case "serve":
		serve()
	default:
		fmt.Fprintln(os.Stderr, "usage: check | serve")
		os.Exit(2)
	}
}

// describe is what a router can see of an error.
func describe(err error) map[string]any {
	if err == nil {
		return map[string]any{"error": ""}
	}
	seen := map[string]any{"error": err.Error()}
	var provider *core.ProviderError
	if errors.As(err, &provider) {
		c := core.ClassifyError(err)
		seen["class"] = string(provider.Class)
		seen["status"] = c.StatusCode
		seen["retryable"] = c.Retryable
		seen["failover"] = c.FailoverEligible
		seen["circuit"] = c.CircuitFailure
		seen["retry_after_s"] = c.RetryAfter.Seconds()
		seen["disposition"] = fmt.Sprint(c.Disposition())
	}
	var refresh *extension.RefreshError
	if errors.As(err, &refresh) {
		seen["refresh_status"] = refresh.StatusCode
		seen["refresh_message"] = refresh.Message
		seen["terminal"] = tokenstore.IsTerminal(err)
	}
	var surface *core.SurfaceError
	if errors.As(err, &surface) {
		seen["surface_error"] = string(surface.Surface)
	}
	return seen
}

func chat(model string) core.Request {
	return core.Request{
		Surface:     core.ModelSurfaceChatCompletions,
		Model:       model,
		Body:        []byte(`{"model":"` + model + `","messages":[{"role":"user","content":"hi"}]}`),
		ContentType: core.ContentTypeJSON,
		Credential: &core.Credential{
			Token: "access-1", AccountID: "account-1", TokenType: "Bearer",
			Metadata: map[string]string{"project": "p-1", "label": "a<b>&c \u00fc"},
		},
	}
}

func check() {
	base, secret := env("DAEMON_URL", "http://127.0.0.1:18888"), os.Getenv("DAEMON_SECRET")
	provider, model := env("PROVIDER", "conf_chat"), env("MODEL", "echo")
	client, err := extension.NewClient(extension.Config{BaseURL: base, Secret: secret})
	if err != nil {
		report("new_client", false, err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()

	info, err := client.Info(ctx)
	report("info", err == nil, map[string]any{"info": info, "seen": describe(err)})
	var served extension.ProviderInfo
	for _, candidate := range info.Providers {
		if candidate.ID == provider {
			served = candidate
		}
	}

	wrong, _ := extension.NewClient(extension.Config{BaseURL: base, Secret: secret + "x"})
	_, err = wrong.Info(ctx)
	report("wrong_secret", err != nil, describe(err))

	rows, err := client.ListModels(ctx, provider, &core.Credential{APIKey: "key-1"})
	report("models", err == nil && len(rows) > 0, map[string]any{"rows": rows, "seen": describe(err)})

	adapter := extension.NewProvider(client, served)
	rows, err = adapter.ListModels(ctx, &core.Credential{APIKey: "key-1"})
	report("models_through_provider", err == nil && len(rows) > 0, map[string]any{"rows": rows, "seen": describe(err)})

	response, err := client.Invoke(ctx, provider, chat(model))
	report("invoke", err == nil, map[string]any{
		"body": string(response.Body), "content_type": response.ContentType,
		"losses": response.Losses, "seen": describe(err),
	})

	report("header_timeout", extension.HeaderTimeout != "", extension.HeaderTimeout)

	// WithTimeout exists from the release that has HeaderTimeout on; remove
	// this block to build against an older one.
	timed := extension.WithTimeout(ctx, 90*time.Second+500*time.Millisecond)
	response, err = client.Invoke(timed, provider, chat("show-headers"))
	report("invoke_with_timeout", err == nil, map[string]any{"body": string(response.Body), "seen": describe(err)})

	for _, status := range []int{301, 400, 401, 403, 404, 408, 409, 422, 429, 500, 502, 503, 504, 529} {
		_, err := client.Invoke(ctx, provider, chat("status-"+strconv.Itoa(status)))
		report("status_"+strconv.Itoa(status), err != nil, describe(err))
	}

	frames, losses, err := drain(ctx, client, provider, chat(model))
	report("stream", err == nil && len(frames) > 0, map[string]any{"frames": frames, "losses": losses, "seen": describe(err)})
	frames, _, err = drain(ctx, client, provider, chat("break-stream"))
	report("stream_broken", err != nil, map[string]any{"frames": frames, "seen": describe(err)})

	// Cancelling must end the daemon's own upstream request; the daemon under
	// test observes that, this side only sees how the client reports it.
	cancelled, stop := context.WithCancel(ctx)
	if stream, err := client.Stream(cancelled, provider, chat("slow-stream")); err == nil {
		first, firstErr := stream.Next()
		stop()
		_, nextErr := stream.Next()
		_ = stream.Close()
		report("stream_cancel", firstErr == nil && nextErr != nil, map[string]any{"first": string(first), "seen": describe(nextErr)})
	} else {
		report("stream_cancel", false, describe(err))
	}
	stop()

	_, err = adapter.Invoke(ctx, core.Request{Surface: "telepathy", Model: model})
	report("surface_not_served", err != nil, describe(err))
	for _, id := range []string{"", "a/b", "..", "info", "\u00e4", strings.Repeat("a", 129)} {
		_, err = client.Invoke(ctx, id, chat(model))
		report("provider_id", err != nil, describe(err))
	}

	if speech := os.Getenv("SPEECH_PROVIDER"); speech != "" {
		response, err := client.Invoke(ctx, speech, core.Request{
			Surface: core.ModelSurfaceAudioSpeech, Model: "voice-1", Body: []byte("hello"), ContentType: "text/plain",
		})
		report("speech", err == nil, map[string]any{"bytes": len(response.Body), "content_type": response.ContentType, "seen": describe(err)})
	}
	if owner := os.Getenv("OAUTH_PROVIDER"); owner != "" {
		checkCredentials(ctx, client, owner)
	}
}

func drain(ctx context.Context, client *extension.Client, provider string, request core.Request) ([]string, []core.Loss, error) {
	stream, err := client.Stream(ctx, provider, request)
	if err != nil {
		return nil, nil, err
	}
	defer stream.Close()
	var frames []string
	for {
		frame, err := stream.Next()
		if errors.Is(err, io.EOF) {
			return frames, core.StreamLosses(stream), nil
		}
		if err != nil {
			return frames, core.StreamLosses(stream), err
		}
		frames = append(frames, string(frame))
	}
}

func checkCredentials(ctx context.Context, client *extension.Client, owner string) {
	current := tokenstore.Record{
		AccessToken: "access-1", RefreshToken: "refresh-1", TokenType: "Bearer", AccountID: "account-1",
		Expiry: time.Now().Add(-time.Minute), Metadata: map[string]string{"project": "p-1"},
	}
	renewed, err := client.Refresh(ctx, owner, current)
	report("refresh", err == nil && renewed.AccessToken != "", map[string]any{
		"has_refresh": renewed.RefreshToken != "", "expiry": renewed.Expiry, "account": renewed.AccountID, "seen": describe(err),
	})
	dead := current
	dead.RefreshToken = "dead"
	_, err = client.Refresh(ctx, owner, dead)
	report("refresh_terminal", tokenstore.IsTerminal(err), describe(err))
	busy := current
	busy.RefreshToken = "busy"
	_, err = client.Refresh(ctx, owner, busy)
	report("refresh_transient", err != nil && !tokenstore.IsTerminal(err), describe(err))

	store := tokenstore.NewMemory()
	if _, err = store.Save(ctx, "signed-in", current); err == nil {
		coordinator, newErr := tokenstore.NewCoordinator(store, client.RefreshFunc(owner))
		if newErr != nil {
			report("coordinator", false, newErr.Error())
		} else {
			first, firstErr := coordinator.Token(ctx, "signed-in")
			second, secondErr := coordinator.Token(ctx, "signed-in")
			report("coordinator", firstErr == nil && secondErr == nil && first.Revision == second.Revision,
				map[string]any{"first": describe(firstErr), "second": describe(secondErr)})
		}
	}

	driver := client.OAuthDriver(owner)
	device, err := driver.Start(ctx, oauthflow.StartRequest{Method: oauthflow.MethodDevice, Params: map[string]string{"client_id": "client-1"}})
	report("oauth_device_start", err == nil && device.Secrets.DeviceCode != "", map[string]any{
		"user_code": device.UserCode, "uri": device.VerificationURI, "interval_s": device.Interval.Seconds(),
		"expires_in_s": device.ExpiresIn.Seconds(), "seen": describe(err),
	})
	now := time.Now()
	flow := oauthflow.Flow{ID: "flow-1", Instance: owner, Method: oauthflow.MethodDevice, CreatedAt: now, ExpiresAt: now.Add(10 * time.Minute), Secrets: device.Secrets}
	for attempt := 1; attempt <= 2; attempt++ {
		result, err := driver.Poll(ctx, flow)
		report("oauth_poll_"+strconv.Itoa(attempt), err == nil, map[string]any{
			"status": string(result.Status), "has_token": result.Record.AccessToken != "", "seen": describe(err),
		})
	}
	manual, err := driver.Start(ctx, oauthflow.StartRequest{Method: oauthflow.MethodManual})
	report("oauth_manual_start", err == nil && manual.AuthorizationURL != "" && manual.Secrets.State != "" && manual.Secrets.Verifier != "",
		map[string]any{"url": manual.AuthorizationURL, "seen": describe(err)})
	flow.Method, flow.Secrets = oauthflow.MethodManual, manual.Secrets
	record, err := driver.Exchange(ctx, flow, "code-1")
	report("oauth_exchange", err == nil && record.AccessToken != "", describe(err))
	_, err = driver.Exchange(ctx, flow, "wrong-code")
	report("oauth_exchange_refused", err != nil, describe(err))
	_, err = driver.Start(ctx, oauthflow.StartRequest{Method: oauthflow.MethodBrowser})
	report("oauth_method_refused", err != nil, describe(err))
}

// serve answers as a daemon would, with the encodings the module itself uses.
func serve() {
	secret := os.Getenv("DAEMON_SECRET")
	answer := func(w http.ResponseWriter, status int, value any) {
		w.Header().Set("Content-Type", core.ContentTypeJSON)
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(value)
	}
	refuse := func(w http.ResponseWriter, status int, message string) {
		answer(w, status, extension.ErrorResponse{Error: extension.ErrorDetail{Message: message, Code: status}})
	}
	handle := func(w http.ResponseWriter, r *http.Request) {
		if secret != "" && r.Header.Get("Authorization") != "Bearer "+secret {
			refuse(w, http.StatusUnauthorized, "unauthorized")
			return
		}
		route := r.Method + " " + strings.TrimPrefix(r.URL.Path, extension.PathPrefix)
		switch route {
		case "GET info":
			answer(w, http.StatusOK, extension.InfoResponse{Version: "0.0.1-interop", Providers: []extension.ProviderInfo{
				{ID: "conf_chat", Name: "Chat", Surfaces: []core.ModelSurface{core.ModelSurfaceChatCompletions, core.ModelSurfaceResponses},
					HasOAuth: true, HasRefresh: true, Credential: extension.CredentialOAuth,
					OAuthMethods: []oauthflow.Method{oauthflow.MethodDevice, oauthflow.MethodManual}},
				{ID: "conf_speech", Name: "Speech", Surfaces: []core.ModelSurface{core.ModelSurfaceAudioSpeech}, Credential: extension.CredentialNone},
			}})
		case "GET conf_chat/models":
			tokens := int64(8192)
			answer(w, http.StatusOK, extension.ModelsResponse{Models: []core.ModelInfo{
				{ID: "silent", Object: "model"},
				{ID: "apis", Object: "model", SupportedAPIs: []string{core.SurfacePath(core.ModelSurfaceResponses)}},
				{ID: "typed", Object: "model", Capabilities: &core.ModelCapabilities{
					SchemaVersion: core.ModelCapabilitiesSchemaVersion,
					Operations:    core.ModelOperationCapabilities{Chat: core.SupportSupported},
					Limits:        core.ModelCapabilityLimits{ContextTokens: &tokens},
				}},
				{ID: "legacy", Object: "model", LegacyCapabilities: map[string]any{"tts": true}},
			}})
		case "GET conf_speech/models":
			answer(w, http.StatusOK, extension.ModelsResponse{Models: []core.ModelInfo{{ID: "voice-1", Object: "model"}}})
		case "POST conf_chat/invoke":
			if status, err := strconv.Atoi(strings.TrimPrefix(r.Header.Get(extension.HeaderModel), "status-")); err == nil {
				w.Header().Set("Retry-After", "7")
				refuse(w, status, "asked for")
				return
			}
			body, _ := io.ReadAll(r.Body)
			extension.SetLossesHeader(w.Header(), []core.Loss{{Path: "messages.0.name", Class: "dropped", Severity: "advisory", Detail: "not carried"}})
			credential := extension.CredentialFromHeaders(r.Header)
			seen := map[string]any{
				"surface": r.Header.Get(extension.HeaderSurface), "model": r.Header.Get(extension.HeaderModel),
				"timeout": r.Header.Get(extension.HeaderTimeout), "content_type": r.Header.Get("Content-Type"), "body": string(body),
			}
			if credential != nil {
				seen["token"], seen["api_key"], seen["account"] = credential.Token, credential.APIKey, credential.AccountID
				seen["token_type"], seen["metadata"] = credential.TokenType, credential.Metadata
			}
			answer(w, http.StatusOK, seen)
		case "POST conf_speech/invoke":
			w.Header().Set("Content-Type", "audio/mpeg")
			_, _ = w.Write([]byte{0xff, 0xfb, 0x00, 0x0a, 0x0d})
		case "POST conf_chat/stream":
			w.Header().Set("Content-Type", core.ContentTypeEventStream)
			flusher, _ := w.(http.Flusher)
			for _, record := range []string{
				": hb\n\n", "data: {\"n\":1}\n\n", "event: tick\n\n", "data:\n\n", "event: part\r\ndata: {\"n\":2}\r\n\r\n",
				": in\ndata:one\ndata: two\n\n", "data: [DONE]\n\n", "data: rest",
			} {
				_, _ = io.WriteString(w, record)
				if flusher != nil {
					flusher.Flush()
				}
			}
		case "POST conf_chat/refresh":
			var request extension.RefreshRequest
			if json.NewDecoder(r.Body).Decode(&request) != nil {
				refuse(w, http.StatusBadRequest, "request is invalid")
				return
			}
			switch request.Record.RefreshToken {
			case "dead":
				answer(w, http.StatusBadRequest, extension.RefreshResponse{Terminal: true, Error: "invalid_grant"})
			case "busy":
				answer(w, http.StatusServiceUnavailable, extension.RefreshResponse{Error: "try later"})
			default:
				renewed := request.Record
				renewed.AccessToken, renewed.RefreshToken, renewed.Expiry = "access-2", "refresh-2", time.Now().Add(time.Hour)
				answer(w, http.StatusOK, extension.RefreshResponse{Record: renewed})
			}
		case "POST conf_chat/oauth/start":
			var request extension.OAuthStartRequest
			_ = json.NewDecoder(r.Body).Decode(&request)
			switch request.Method {
			case oauthflow.MethodDevice:
				answer(w, http.StatusOK, extension.OAuthStartResponse{Authorization: oauthflow.Authorization{
					UserCode: "ABCD-1234", VerificationURI: "https://provider.example/device", Interval: 5 * time.Second,
					ExpiresIn: 10 * time.Minute, Secrets: oauthflow.Secrets{DeviceCode: "device-1"},
				}})
			case oauthflow.MethodManual:
				answer(w, http.StatusOK, extension.OAuthStartResponse{Authorization: oauthflow.Authorization{
					AuthorizationURL: "https://provider.example/authorize?state=state-1",
					Secrets:          oauthflow.Secrets{State: "state-1", Verifier: "verifier-1", RedirectURI: "http://localhost:1455/cb"},
				}})
			default:
				answer(w, http.StatusBadRequest, extension.OAuthStartResponse{Error: "method is not supported"})
			}
		case "POST conf_chat/oauth/poll":
			var request extension.OAuthPollRequest
			_ = json.NewDecoder(r.Body).Decode(&request)
			answer(w, http.StatusOK, extension.OAuthPollResponse{Result: oauthflow.PollResult{
				Status: oauthflow.PollApproved,
				Record: tokenstore.Record{AccessToken: "access-for-" + request.Flow.Secrets.DeviceCode, RefreshToken: "refresh-1", TokenType: "Bearer"},
			}})
		case "POST conf_chat/oauth/exchange":
			var request extension.OAuthExchangeRequest
			_ = json.NewDecoder(r.Body).Decode(&request)
			if request.Code != "code-1" || request.Flow.Secrets.Verifier != "verifier-1" {
				answer(w, http.StatusBadRequest, extension.OAuthExchangeResponse{Error: "the code was refused"})
				return
			}
			answer(w, http.StatusOK, extension.OAuthExchangeResponse{Record: tokenstore.Record{AccessToken: "access-1", TokenType: "Bearer"}})
		default:
			refuse(w, http.StatusNotFound, "no such route")
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+env("PORT", "0"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = out.Encode(map[string]any{"listening": "http://" + listener.Addr().String(), "header_timeout": extension.HeaderTimeout})
	server := &http.Server{Handler: http.HandlerFunc(handle), ReadHeaderTimeout: 10 * time.Second}
	_ = server.Serve(listener)
}
