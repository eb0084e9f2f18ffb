// Package extension has the daemon protocol's messages and headers (daemon
// contract, A3, A9) and a plain client of its operations, for tests on
// machines without the original. Refreshes and sign-ins fail.
package extension

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/xibodev/llm-provider-auth/tokenstore"
	core "github.com/xibodev/llmgw-core"
	"github.com/xibodev/llmgw-core/oauthflow"
)

const (
	PathPrefix    = "/extension/v1/"
	HeaderSurface = "X-Surface"
	HeaderModel   = "X-Model"
	HeaderTimeout = "X-Timeout"

	CredentialOAuth = "oauth"
	CredentialNone  = "none"
)

type ProviderInfo struct {
	ID           string              `json:"id"`
	Name         string              `json:"name"`
	Surfaces     []core.ModelSurface `json:"surfaces"`
	HasOAuth     bool                `json:"has_oauth"`
	HasRefresh   bool                `json:"has_refresh"`
	Credential   string              `json:"credential,omitempty"`
	OAuthMethods []oauthflow.Method  `json:"oauth_methods,omitempty"`
}

type InfoResponse struct {
	Version   string         `json:"version"`
	Providers []ProviderInfo `json:"providers"`
}

type ModelsResponse struct {
	Models []core.ModelInfo `json:"models"`
}

type RefreshRequest struct {
	Record tokenstore.Record `json:"record"`
}

type RefreshResponse struct {
	Record   tokenstore.Record `json:"record,omitzero"`
	Terminal bool              `json:"terminal,omitempty"`
	Error    string            `json:"error,omitempty"`
}

type OAuthStartRequest struct {
	Method      oauthflow.Method  `json:"method"`
	RedirectURI string            `json:"redirect_uri,omitempty"`
	Params      map[string]string `json:"params,omitempty"`
}

type OAuthStartResponse struct {
	Authorization oauthflow.Authorization `json:"authorization,omitzero"`
	Error         string                  `json:"error,omitempty"`
}

type OAuthPollRequest struct {
	Flow oauthflow.Flow `json:"flow"`
}

type OAuthPollResponse struct {
	Result oauthflow.PollResult `json:"result,omitzero"`
	Error  string               `json:"error,omitempty"`
}

type OAuthExchangeRequest struct {
	Code string         `json:"code"`
	Flow oauthflow.Flow `json:"flow"`
}

type OAuthExchangeResponse struct {
	Record tokenstore.Record `json:"record,omitzero"`
	Error  string            `json:"error,omitempty"`
}

type ErrorDetail struct {
	Message string `json:"message"`
	Code    int    `json:"code,omitempty"`
}

type ErrorResponse struct {
	Error ErrorDetail `json:"error"`
}

func SetLossesHeader(header http.Header, losses []core.Loss) {
	if len(losses) == 0 {
		return
	}
	data, _ := json.Marshal(losses)
	header.Set("X-Losses", base64.StdEncoding.EncodeToString(data))
}

func CredentialFromHeaders(header http.Header) *core.Credential {
	token, kind := header.Get("X-Credential-Token"), header.Get("X-Credential-Token-Type")
	credential := core.Credential{AccountID: header.Get("X-Credential-Account-ID"), TokenType: kind}
	if data, err := base64.StdEncoding.DecodeString(header.Get("X-Credential-Metadata")); err == nil {
		_ = json.Unmarshal(data, &credential.Metadata)
	}
	if token == "" && kind == "" && credential.AccountID == "" && len(credential.Metadata) == 0 {
		return nil
	}
	if kind == "api_key" {
		credential.APIKey = token
	} else {
		credential.Token = token
	}
	return &credential
}

var errStandIn = errors.New("the stand-in has no refreshes and sign-ins")

type RefreshError struct {
	StatusCode int
	Message    string
}

func (*RefreshError) Error() string { return "" }

type OAuthDriver struct{}

func (*Client) Refresh(context.Context, string, tokenstore.Record) (tokenstore.Record, error) {
	return tokenstore.Record{}, errStandIn
}
func (*Client) RefreshFunc(string) tokenstore.RefreshFunc { return nil }
func (*Client) OAuthDriver(string) *OAuthDriver           { return nil }

func (*OAuthDriver) Start(context.Context, oauthflow.StartRequest) (oauthflow.Authorization, error) {
	return oauthflow.Authorization{}, errStandIn
}
func (*OAuthDriver) Poll(context.Context, oauthflow.Flow) (oauthflow.PollResult, error) {
	return oauthflow.PollResult{}, errStandIn
}
func (*OAuthDriver) Exchange(context.Context, oauthflow.Flow, string) (tokenstore.Record, error) {
	return tokenstore.Record{}, errStandIn
}
