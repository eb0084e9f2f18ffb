// Package tokenstore has the shape of a stored credential as the daemon
// contract describes it (A9), for tests on machines without the original.
package tokenstore

import (
	"context"
	"errors"
	"time"
)

type Record struct {
	Revision     string
	AccessToken  string
	RefreshToken string
	IDToken      string
	TokenType    string
	Expiry       time.Time
	AccountID    string
	Metadata     map[string]string
}

type RefreshFunc func(context.Context, Record) (Record, error)

var errStandIn = errors.New("the stand-in has no store")

type Memory struct{}

func NewMemory() *Memory { return &Memory{} }

func (*Memory) Save(context.Context, string, Record) (Record, error) { return Record{}, errStandIn }

type Coordinator struct{}

func NewCoordinator(*Memory, RefreshFunc) (*Coordinator, error) { return nil, errStandIn }

func (*Coordinator) Token(context.Context, string) (Record, error) { return Record{}, errStandIn }

func IsTerminal(error) bool { return false }
