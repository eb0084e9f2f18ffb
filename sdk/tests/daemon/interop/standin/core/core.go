// Package core has the shapes of the daemon contract (A9, B1) that travel as
// JSON, for tests on machines without the original. Its encodings are Go's.
package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

const (
	ContentTypeJSON        = "application/json"
	ContentTypeEventStream = "text/event-stream"

	ModelCapabilitiesSchemaVersion = 1
)

type ModelSurface string

const (
	ModelSurfaceChatCompletions ModelSurface = "chat_completions"
	ModelSurfaceResponses       ModelSurface = "responses"
	ModelSurfaceMessages        ModelSurface = "messages"
	ModelSurfaceAudioSpeech     ModelSurface = "audio_speech"
)

func SurfacePath(surface ModelSurface) string {
	return map[ModelSurface]string{
		ModelSurfaceChatCompletions: "/v1/chat/completions",
		ModelSurfaceResponses:       "/v1/responses",
		ModelSurfaceMessages:        "/v1/messages",
		ModelSurfaceAudioSpeech:     "/v1/audio/speech",
	}[surface]
}

type Support uint8

const (
	SupportUnknown Support = iota
	SupportSupported
	SupportUnsupported
)

var supports = []string{"unknown", "supported", "unsupported"}

func (s Support) MarshalJSON() ([]byte, error) { return json.Marshal(supports[s]) }

func (s *Support) UnmarshalJSON(data []byte) error {
	for value, name := range supports {
		if string(data) == `"`+name+`"` {
			*s = Support(value)
			return nil
		}
	}
	return fmt.Errorf("no support value")
}

type ModelOperationCapabilities struct {
	Chat       Support `json:"chat"`
	Embeddings Support `json:"embeddings"`
	Image      Support `json:"image"`
	AudioIn    Support `json:"audio_in"`
	AudioOut   Support `json:"audio_out"`
	Video      Support `json:"video"`
	TokenCount Support `json:"token_count"`
}

type ModelSurfaceCapabilities struct {
	ChatCompletions Support `json:"chat_completions"`
	Responses       Support `json:"responses"`
	Messages        Support `json:"messages"`
}

type ModelInputCapabilities struct {
	Text  Support `json:"text"`
	Image Support `json:"image"`
}

type ModelCapabilityLimits struct {
	ContextTokens   *int64 `json:"context_tokens,omitempty"`
	MaxOutputTokens *int64 `json:"max_output_tokens,omitempty"`
}

type ModelCapabilityProvenance struct {
	Source     string `json:"source"`
	Confidence string `json:"confidence"`
}

type ModelCapabilityFreshness struct {
	DiscoveredAt time.Time `json:"discovered_at,omitzero"`
	VerifiedAt   time.Time `json:"verified_at,omitzero"`
	ExpiresAt    time.Time `json:"expires_at,omitzero"`
}

type ModelCapabilities struct {
	SchemaVersion     int                        `json:"schema_version"`
	Operations        ModelOperationCapabilities `json:"operations"`
	Surfaces          ModelSurfaceCapabilities   `json:"surfaces"`
	Inputs            ModelInputCapabilities     `json:"inputs"`
	Tools             Support                    `json:"tools"`
	Reasoning         Support                    `json:"reasoning"`
	StructuredOutput  Support                    `json:"structured_output"`
	Streaming         Support                    `json:"streaming"`
	StatefulResponses Support                    `json:"stateful_responses"`
	Limits            ModelCapabilityLimits      `json:"limits"`
	Provenance        ModelCapabilityProvenance  `json:"provenance"`
	Freshness         ModelCapabilityFreshness   `json:"freshness"`
}

type ModelInfo struct {
	ID                 string             `json:"id"`
	Object             string             `json:"object"`
	Created            int64              `json:"created"`
	OwnedBy            string             `json:"owned_by"`
	Description        string             `json:"description,omitempty"`
	Tags               []string           `json:"tags,omitempty"`
	DisplayName        string             `json:"display_name,omitempty"`
	Vendor             string             `json:"vendor,omitempty"`
	Free               bool               `json:"free,omitempty"`
	APIEligible        bool               `json:"api_eligible,omitempty"`
	APIVisibility      string             `json:"api_visibility,omitempty"`
	SupportedAPIs      []string           `json:"supported_apis,omitempty"`
	Capabilities       *ModelCapabilities `json:"capabilities,omitempty"`
	LegacyCapabilities map[string]any     `json:"legacy_capabilities,omitempty"`
}

type Loss struct {
	Path     string `json:"path"`
	Class    string `json:"class"`
	Severity string `json:"severity"`
	Detail   string `json:"detail"`
}

type Caller struct {
	ID        string `json:"id"`
	Kind      string `json:"kind"`
	ProjectID string `json:"project_id,omitempty"`
}

type Credential struct {
	Token, APIKey, AccountID, TokenType string
	Metadata                            map[string]string
}

type Request struct {
	Surface     ModelSurface
	Model       string
	Body        []byte
	ContentType string
	Credential  *Credential
}

type Response struct {
	Body        []byte
	ContentType string
	Losses      []Loss
}

type StreamIter interface {
	Next() ([]byte, error)
	Close() error
}

// StreamLosses are known from the head on.
func StreamLosses(stream StreamIter) []Loss {
	if told, ok := stream.(interface{ Losses() []Loss }); ok {
		return told.Losses()
	}
	return nil
}

type Classification struct {
	StatusCode                                  int
	Retryable, FailoverEligible, CircuitFailure bool
	RetryAfter                                  time.Duration
}

func (c Classification) Disposition() string {
	switch {
	case c.Retryable:
		return "retryable"
	case c.FailoverEligible:
		return "failover"
	}
	return "terminal"
}

func ClassifyError(err error) Classification {
	var provider *ProviderError
	if errors.As(err, &provider) {
		return provider.Classification
	}
	return Classification{}
}

type ProviderError struct {
	Message, Class string
	Classification Classification
	Cause          error
}

func (e *ProviderError) Error() string { return e.Message }
func (e *ProviderError) Unwrap() error { return e.Cause }

type SurfaceError struct{ Surface ModelSurface }

func (e *SurfaceError) Error() string {
	return fmt.Sprintf("the provider does not serve the surface %q", e.Surface)
}
