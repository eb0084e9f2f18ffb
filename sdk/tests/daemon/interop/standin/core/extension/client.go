package extension

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	core "github.com/xibodev/llmgw-core"
)

const (
	headerToken    = "X-Credential-Token"
	headerAccount  = "X-Credential-Account-ID"
	headerType     = "X-Credential-Token-Type"
	headerMetadata = "X-Credential-Metadata"
	headerLosses   = "X-Losses"

	jsonBytes   = 1 << 20
	modelsBytes = 16 << 20
	answerBytes = 64 << 20
	recordBytes = 4 << 20
)

type Config struct {
	BaseURL, Secret string
	HTTPClient      *http.Client
}

// Client asks one daemon (A1 to A8).
type Client struct {
	base, secret string
	http         *http.Client
}

func NewClient(config Config) (*Client, error) {
	base := strings.TrimRight(strings.TrimSpace(config.BaseURL), "/")
	parts, err := url.Parse(base)
	if err != nil || (parts.Scheme != "http" && parts.Scheme != "https") || parts.Host == "" ||
		parts.User != nil || strings.ContainsAny(base, "?#") {
		return nil, errors.New("extension: a base URL is http or https, with a host, and without user, query and fragment")
	}
	asking := config.HTTPClient
	if asking == nil {
		asking = &http.Client{
			Transport:     &http.Transport{ResponseHeaderTimeout: 180 * time.Second},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return &Client{base: base, secret: strings.TrimSpace(config.Secret), http: asking}, nil
}

type timeoutKey struct{}

// WithTimeout has operations of this context tell the daemon how long it may wait (C1).
func WithTimeout(ctx context.Context, wait time.Duration) context.Context {
	return context.WithValue(ctx, timeoutKey{}, wait)
}

func (c *Client) Info(ctx context.Context) (InfoResponse, error) {
	var info InfoResponse
	return info, c.read(ctx, "info", nil, jsonBytes, &info)
}

func (c *Client) ListModels(ctx context.Context, provider string, credential *core.Credential) ([]core.ModelInfo, error) {
	if err := checkID(provider); err != nil {
		return nil, err
	}
	var models ModelsResponse
	return models.Models, c.read(ctx, provider+"/models", credential, modelsBytes, &models)
}

func (c *Client) Invoke(ctx context.Context, provider string, request core.Request) (core.Response, error) {
	if _, bounded := ctx.Deadline(); !bounded && ctx.Value(timeoutKey{}) == nil {
		within, cancel := context.WithTimeout(ctx, 180*time.Second)
		defer cancel()
		ctx = within
	}
	answer, err := c.operate(ctx, provider, "invoke", "", request)
	if err != nil {
		return core.Response{}, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, answerBytes+1))
	if err != nil {
		return core.Response{}, unanswered(ctx, err)
	}
	if len(body) > answerBytes {
		return core.Response{}, unusable()
	}
	return core.Response{Body: body, ContentType: answer.Header.Get("Content-Type"), Losses: losses(answer.Header)}, nil
}

func (c *Client) Stream(ctx context.Context, provider string, request core.Request) (core.StreamIter, error) {
	answer, err := c.operate(ctx, provider, "stream", core.ContentTypeEventStream, request)
	if err != nil {
		return nil, err
	}
	return &records{ctx: ctx, body: answer.Body, lines: bufio.NewReader(answer.Body), losses: losses(answer.Header)}, nil
}

func (c *Client) operate(ctx context.Context, provider, route, accept string, request core.Request) (*http.Response, error) {
	if err := checkID(provider); err != nil {
		return nil, err
	}
	header := http.Header{HeaderSurface: {string(request.Surface)}, HeaderModel: {request.Model}}
	if accept != "" {
		header.Set("Accept", accept)
	}
	if request.ContentType != "" {
		header.Set("Content-Type", request.ContentType)
	}
	if wait, told := ctx.Value(timeoutKey{}).(time.Duration); told && wait > 0 {
		header.Set(HeaderTimeout, strconv.FormatFloat(wait.Seconds(), 'f', -1, 64))
	}
	return c.send(ctx, http.MethodPost, provider+"/"+route, header, request.Credential, request.Body)
}

func (c *Client) read(ctx context.Context, route string, credential *core.Credential, most int64, into any) error {
	within, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	answer, err := c.send(within, http.MethodGet, route, http.Header{"Accept": {core.ContentTypeJSON}}, credential, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, most+1))
	if err != nil || int64(len(body)) > most || json.Unmarshal(body, into) != nil {
		return unusable()
	}
	return nil
}

func (c *Client) send(
	ctx context.Context, method, route string, header http.Header, credential *core.Credential, body []byte,
) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+PathPrefix+route, bytes.NewReader(body))
	if err != nil {
		return nil, failed("configuration", "the request cannot be made", core.Classification{FailoverEligible: true}, nil)
	}
	request.Header = header
	if c.secret != "" {
		header.Set("Authorization", "Bearer "+c.secret)
	}
	show(header, credential)
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, unanswered(ctx, err)
	}
	if answer.StatusCode/100 == 2 {
		return answer, nil
	}
	defer answer.Body.Close()
	data, _ := io.ReadAll(io.LimitReader(answer.Body, jsonBytes))
	return nil, refused(answer, reason(data))
}

// show writes the headers of a credential (A3).
func show(header http.Header, credential *core.Credential) {
	if credential == nil {
		return
	}
	token, kind := credential.Token, credential.TokenType
	if token == "" {
		token = credential.APIKey
		if kind == "" && token != "" {
			kind = "api_key"
		}
	}
	for name, value := range map[string]string{headerToken: token, headerAccount: credential.AccountID, headerType: kind} {
		if value != "" {
			header.Set(name, value)
		}
	}
	if len(credential.Metadata) > 0 {
		data, _ := json.Marshal(credential.Metadata)
		header.Set(headerMetadata, base64.StdEncoding.EncodeToString(data))
	}
}

func losses(header http.Header) []core.Loss {
	var found []core.Loss
	if data, err := base64.StdEncoding.DecodeString(header.Get(headerLosses)); err != nil || json.Unmarshal(data, &found) != nil {
		return nil
	}
	return found
}

// records reads a stream as C2 says.
type records struct {
	ctx    context.Context
	body   io.ReadCloser
	lines  *bufio.Reader
	losses []core.Loss
	ended  bool
}

func (r *records) Losses() []core.Loss { return r.losses }
func (r *records) Close() error        { return r.body.Close() }

func (r *records) Next() ([]byte, error) {
	var record []byte
	var data [][]byte
	for !r.ended {
		line, err := r.lines.ReadBytes('\n')
		if err != nil && err != io.EOF {
			classification := core.Classification{FailoverEligible: r.ctx.Err() == nil}
			return nil, failed("transport", "the stream broke off", classification, err)
		}
		record = append(record, line...)
		if len(record) > recordBytes {
			return nil, failed("upstream", "a record is too long", core.Classification{}, nil)
		}
		r.ended = err == io.EOF
		text := bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		name, value, _ := bytes.Cut(text, []byte(":"))
		if string(name) == "data" {
			data = append(data, bytes.TrimPrefix(value, []byte(" ")))
		}
		if len(text) > 0 && !r.ended {
			continue
		}
		if len(bytes.Join(data, []byte("\n"))) > 0 {
			if r.ended {
				record = append(bytes.TrimSuffix(record, []byte("\n")), "\n\n"...)
			}
			return record, nil
		}
		record, data = nil, nil
	}
	return nil, io.EOF
}

// Provider is one provider of a daemon, with its own surfaces alone (B2).
type Provider struct {
	client *Client
	info   ProviderInfo
}

func NewProvider(client *Client, info ProviderInfo) *Provider { return &Provider{client, info} }

// ListModels gives a row that says nothing of what it serves the provider's surfaces; what else a row may say is not looked at here.
func (p *Provider) ListModels(ctx context.Context, credential *core.Credential) ([]core.ModelInfo, error) {
	rows, err := p.client.ListModels(ctx, p.info.ID, credential)
	for at := range rows {
		if len(rows[at].SupportedAPIs) == 0 && rows[at].Capabilities == nil && len(rows[at].LegacyCapabilities) == 0 {
			for _, surface := range p.info.Surfaces {
				rows[at].SupportedAPIs = append(rows[at].SupportedAPIs, core.SurfacePath(surface))
			}
		}
	}
	return rows, err
}

func (p *Provider) Invoke(ctx context.Context, request core.Request) (core.Response, error) {
	if !slices.Contains(p.info.Surfaces, request.Surface) {
		return core.Response{}, &core.SurfaceError{Surface: request.Surface}
	}
	return p.client.Invoke(ctx, p.info.ID, request)
}

// ------------------------------------------------------------------------------------------------ failures (D2)

var providerID = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

func checkID(provider string) error {
	if !providerID.MatchString(provider) || provider == "." || provider == ".." || provider == "info" {
		return failed("configuration", "the provider's id is not valid", core.Classification{FailoverEligible: true}, nil)
	}
	return nil
}

func failed(class, message string, classification core.Classification, cause error) error {
	return &core.ProviderError{Message: "extension: " + message, Class: class, Classification: classification, Cause: cause}
}

func unusable() error {
	return failed("upstream", "the answer cannot be used", core.Classification{}, nil)
}

func unanswered(ctx context.Context, cause error) error {
	if ctx.Err() != nil {
		return failed("transport", "the call was given up", core.Classification{}, ctx.Err())
	}
	again := core.Classification{Retryable: true, FailoverEligible: true, CircuitFailure: true}
	return failed("transport", "the daemon did not answer", again, cause)
}

func refused(answer *http.Response, reason string) error {
	class, classification := "upstream", core.Classification{StatusCode: answer.StatusCode}
	switch status := answer.StatusCode; {
	case status == http.StatusUnauthorized:
		class = "auth"
	case status == http.StatusForbidden:
		class = "forbidden"
	case status == http.StatusTooManyRequests:
		class = "rate_limited"
		classification.Retryable, classification.FailoverEligible = true, true
		if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds >= 0 {
			classification.RetryAfter = time.Duration(seconds) * time.Second
		}
	case status == http.StatusRequestTimeout || status >= http.StatusInternalServerError:
		classification.Retryable, classification.FailoverEligible, classification.CircuitFailure = true, true, true
	default:
		classification.CircuitFailure = true
	}
	if reason == "" {
		reason = fmt.Sprintf("(HTTP %d)", answer.StatusCode)
	}
	return failed(class, reason, classification, nil)
}

// reason reads either shape of a failure (A5).
func reason(data []byte) string {
	var plain struct{ Error string }
	if json.Unmarshal(data, &plain) == nil {
		return plain.Error
	}
	var whole ErrorResponse
	_ = json.Unmarshal(data, &whole)
	return whole.Error.Message
}
