// Package oauthflow has the shapes of a sign-in (daemon contract, A9).
package oauthflow

import (
	"time"

	"github.com/xibodev/llm-provider-auth/tokenstore"
	core "github.com/xibodev/llmgw-core"
)

type Method string

const (
	MethodBrowser Method = "browser"
	MethodDevice  Method = "device"
	MethodManual  Method = "manual"
)

type PollStatus string

const PollApproved PollStatus = "approved"

type Secrets struct {
	Verifier, State, DeviceCode, RedirectURI string
	DriverData                               map[string]string
	Params                                   map[string]string
}

type Authorization struct {
	AuthorizationURL        string
	UserCode                string
	VerificationURI         string
	VerificationURIComplete string
	Interval                time.Duration
	ExpiresIn               time.Duration
	Secrets                 Secrets
}

type Progress struct {
	Interval      time.Duration
	NextPollAt    time.Time
	Outcome       string
	CredentialKey string
}

type Flow struct {
	ID                      string
	Caller                  core.Caller
	Instance                string
	Method                  Method
	CreatedAt               time.Time
	ExpiresAt               time.Time
	Revision                string
	ConsumedAt              time.Time
	AuthorizationURL        string
	UserCode                string
	VerificationURI         string
	VerificationURIComplete string
	Progress                Progress
	Secrets                 Secrets
}

type PollResult struct {
	Status PollStatus
	Record tokenstore.Record
}

type StartRequest struct {
	Method      Method
	RedirectURI string
	Params      map[string]string
}
