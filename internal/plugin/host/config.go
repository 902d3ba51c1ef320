// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"time"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/redact"
)

const (
	// DefaultStartTimeout is how long a plugin may take from its start until it has listed
	// its actions.
	DefaultStartTimeout = 30 * time.Second
	// DefaultGrace is how long an abandoned call may take to end before its process
	// is restarted to make room for the next call.
	DefaultGrace = 5 * time.Second
)

// Settings has the settings that all plugins of one operator share.
type Settings struct {
	// Spawner starts the children. Required.
	Spawner *Spawner
	// Logger is the operator's log, for lines that belong to no call.
	Logger logr.Logger
	// Redactor redacts log lines and errors; the default has no exact values.
	Redactor *redact.Redactor
	// LogLevel is passed to the children with --log-level: trace, debug, info (the
	// default), warn or error.
	LogLevel string
	// Features are passed to the children with --features.
	Features []string
	// Env are variables for all children, VELERO_NAMESPACE for example.
	Env map[string]string
	// LookupEnv reads the variables that children inherit; os.LookupEnv by default.
	LookupEnv func(string) (string, bool)
	// Now is the clock for the back-off; time.Now by default.
	Now func() time.Time
	// OnExit is called, in its own goroutine, after a child ended unexpectedly. Optional.
	OnExit func(plugin string)
	// MaxMemory is how many bytes of memory a child may use before it is killed. Zero means
	// no limit. The memory is checked periodically, and only on Linux.
	MaxMemory int64
	// Grace replaces DefaultGrace.
	Grace time.Duration
}

func (h Settings) withDefaults() Settings {
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
	if h.Grace <= 0 {
		h.Grace = DefaultGrace
	}
	return h
}

// ProcessConfig describes the process of one plugin.
type ProcessConfig struct {
	// Name is the name of the Plugin object, for the log.
	Name string
	// Path is the absolute path of the binary.
	Path string
	// Args are appended to the arguments that every plugin gets.
	Args []string
	// Env are variables only for this plugin. Values whose names say that they are secret
	// are registered with the Redactor.
	Env map[string]string
	// StartTimeout replaces DefaultStartTimeout. Callers with a shorter deadline do not end
	// the start.
	StartTimeout time.Duration
	// Verify is called for every new child before any other call, and decides whether the
	// child may be used. Its error is returned unchanged.
	Verify VerifyFunc
}

// Capabilities are the properties of a child that Verify determined.
type Capabilities struct {
	// MarksLogEnd is true if the child marks the end of the log lines of every call.
	MarksLogEnd bool
}
