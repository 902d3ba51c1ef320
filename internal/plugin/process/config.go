// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"os"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/internal/redact"
)

const (
	// DefaultStartTimeout is how long a plugin may take from its start until it has
	// answered what it provides.
	DefaultStartTimeout = 30 * time.Second
	// DefaultCallTimeout bounds a call whose ctx has no deadline.
	DefaultCallTimeout = time.Hour
	// DefaultGrace is how long an abandoned call may take to end before its process
	// is restarted to make room for the next call.
	DefaultGrace = 5 * time.Second
)

// Host is what all plugins of one operator have in common.
type Host struct {
	// Spawner starts the children. Required.
	Spawner *Spawner
	// Logger is the operator's log: for lines that belong to no call.
	Logger logr.Logger
	// Redactor cleans log lines and errors; by default one without exact values.
	Redactor *redact.Redactor
	// LogLevel is handed to the children with --log-level: trace, debug, info (the
	// default), warn or error.
	LogLevel string
	// Features are handed to the children with --features.
	Features []string
	// Env are variables for all children, VELERO_NAMESPACE for example.
	Env map[string]string
	// LookupEnv reads the variables that children inherit; os.LookupEnv by default.
	LookupEnv func(string) (string, bool)
	// Now is the clock of the back-off; time.Now by default.
	Now func() time.Time
	// OnExit is called, from a goroutine of its own, after a child ended without
	// having been told to. Optional.
	OnExit func(plugin string)
	// MaxMemory is how many bytes of memory a child may use before it is ended; without
	// limit if it is zero. It is looked at now and then, and on Linux only.
	MaxMemory int64
	// CallTimeout and Grace replace DefaultCallTimeout and DefaultGrace.
	CallTimeout, Grace time.Duration
}

func (h Host) withDefaults() Host {
	if h.Redactor == nil {
		h.Redactor = redact.New()
	}
	if h.LogLevel == "" {
		h.LogLevel = "info"
	}
	if h.LookupEnv == nil {
		h.LookupEnv = os.LookupEnv
	}
	if h.Now == nil {
		h.Now = time.Now
	}
	if h.CallTimeout <= 0 {
		h.CallTimeout = DefaultCallTimeout
	}
	if h.Grace <= 0 {
		h.Grace = DefaultGrace
	}
	return h
}

// Config describes the process of one plugin.
type Config struct {
	// Name is the name of the Plugin object, for the log.
	Name string
	// Path is the absolute path of the binary.
	Path string
	// Args are appended to the arguments that every plugin gets.
	Args []string
	// Env are variables for this plugin alone. Values whose names say that they are
	// secret are registered with the Redactor.
	Env map[string]string
	// StartTimeout replaces DefaultStartTimeout. Callers that have less time than that
	// do not end the start.
	StartTimeout time.Duration
	// Verify is called for every new child before it gets any other call, and
	// decides whether the child may be used. Its error is returned as it is.
	Verify func(ctx context.Context, conn grpc.ClientConnInterface) (Capabilities, error)
}

// Capabilities are what Verify found out about a child.
type Capabilities struct {
	// MarksLogEnd says that the child marks the end of the log lines of every call.
	MarksLogEnd bool
}
