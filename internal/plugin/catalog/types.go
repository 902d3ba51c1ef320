// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"

	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

// Spec describes one plugin.
type Spec struct {
	// Name is the name of the Plugin object. Required.
	Name string
	// UID and Generation are those of the Plugin object; a change of only these does not
	// restart the process.
	UID        string
	Generation int64
	// Created is when the Plugin object was created: of two plugins that register the
	// same action, the older one provides it.
	Created time.Time
	// Process describes the process. It is ignored if one of the next two fields is set.
	Process ProcessSpec
	// Endpoint is the address of a plugin that the operator does not start; nil for any
	// other.
	Endpoint *EndpointSpec
	// DeclaredActions are the actions of a plugin that does not list its actions; nil for one
	// that does.
	DeclaredActions *DeclaredActions
	// HasOpenOperations means that the running process has work that would be lost if it ended: the
	// process is not replaced then.
	HasOpenOperations bool
}

// ProcessSpec describes the process of a plugin.
type ProcessSpec struct {
	// Path is the absolute path of the binary.
	Path string
	// Args are appended to --log-level and --features.
	Args []string
	// Env are variables in addition to the few that every plugin gets. Values whose names
	// say that they are secret are redacted in logs and errors.
	Env map[string]string
	// StartTimeout is how long the process may take until it is ready for calls;
	// 30 seconds by default.
	StartTimeout time.Duration
}

// EndpointSpec describes a plugin that is served at an address.
type EndpointSpec struct {
	// Address is host:port, or unix:///path of a socket.
	Address string
	// Credentials is called for every connection to host:port; see host.EndpointConfig.
	Credentials func(ctx context.Context) (host.TLS, error)
	// Digest changes whenever the behavior of Credentials changes.
	Digest string
	// ConnectTimeout is the time limit for connecting; host.DefaultConnectTimeout by
	// default.
	ConnectTimeout time.Duration
}

func (e *EndpointSpec) equal(other *EndpointSpec) bool {
	if e == nil || other == nil {
		return e == other
	}
	return e.Address == other.Address && e.Digest == other.Digest && e.ConnectTimeout == other.ConnectTimeout
}

// hasSameServer reports whether two specifications describe the same process or endpoint.
func (s Spec) hasSameServer(other Spec) bool {
	return s.Process.equal(other.Process) && s.Endpoint.equal(other.Endpoint)
}

func (p ProcessSpec) equal(other ProcessSpec) bool {
	return p.Path == other.Path && p.StartTimeout == other.StartTimeout &&
		slices.Equal(p.Args, other.Args) && maps.Equal(p.Env, other.Env)
}

// deepCopy returns a copy that the caller of Load cannot change.
func (p ProcessSpec) deepCopy() ProcessSpec {
	p.Args, p.Env = slices.Clone(p.Args), maps.Clone(p.Env)
	return p
}

// Action is one action that a plugin provides: its kind, the version of the kind's
// interface and its registered name.
type Action = pluginclient.ListedAction

// Info describes a loaded plugin.
type Info struct {
	// Actions are sorted by kind, name and version. The caller must not change them.
	Actions []Action
	// Ignored are the actions of kinds that the operator does not know, as the plugin lists
	// them and sorted: "VolumeSnapshotter example.io/disks".
	Ignored []string
	// ConflictingPlugins are the plugins that are refused because they register the same as this one.
	ConflictingPlugins []ConflictingPlugin
	// Digest is the SHA-256 of the binary in hexadecimal digits.
	Digest string
	// ReplacementPostponed means that the Info describes a process whose binary or configuration
	// has changed, and which was not replaced because of Spec.HasOpenOperations.
	ReplacementPostponed bool
	// SDKVersion is the version of the SDK that the plugin was built with, "" if it is not
	// reported.
	SDKVersion string
}

// LoadError says why a plugin could not be loaded.
type LoadError struct {
	// Reason is in CamelCase, fit for a condition: one of the constants here, of
	// package host or of package client.
	Reason string
	// Message is one line for users that says what to do, redacted and always the same for
	// the same cause.
	Message string
	// Err is the cause, if there is one. Its text must not be shown.
	Err error
}

// Error returns the message.
func (e *LoadError) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *LoadError) Unwrap() error { return e.Err }

// The reasons of a LoadError that this package adds to those of packages host
// and client.
const (
	// ReasonDuplicateAction means that another plugin already provides the action.
	ReasonDuplicateAction = "DuplicateAction"
	// ReasonRegistrationChanged means that a restarted process provides other
	// actions than the one that was loaded.
	ReasonRegistrationChanged = "RegistrationChanged"
	// ReasonInitFailed means that an object store refused its configuration.
	ReasonInitFailed = "InitFailed"
	// ReasonClosed means that the operator is stopping.
	ReasonClosed = "Closed"
)

// Options are the settings of a Catalog. All are optional.
type Options struct {
	// Logger receives lines that belong to no run.
	Logger logr.Logger
	// Redactor redacts secrets in logs and errors; the default knows only patterns.
	Redactor *redact.Redactor
	// LogLevel and Features are passed to every plugin: --log-level, --features.
	LogLevel string
	Features []string
	// Kinds are the kinds and versions that can be called; pluginclient.SupportedKinds() by
	// default.
	Kinds []pluginclient.ActionKind
	// Env are variables for every plugin, for example VELERO_NAMESPACE.
	Env map[string]string
	// LookupEnv reads the variables that plugins inherit; os.LookupEnv by default.
	LookupEnv func(string) (string, bool)
	// OnExit is called, with the name of the Plugin object, when a process ended by itself.
	// The controller then reconciles the object. OnExit must not block.
	OnExit func(plugin string)
	// OnChange is called, with the name of a Plugin object, when another plugin that
	// registers the same actions was loaded, changed or unloaded, and Load would return a
	// different result: other Info.ConflictingPlugins, or the plugin is refused or no
	// longer refused. It must not block, and must not call the Catalog.
	OnChange func(plugin string)
	// Now is the clock for the back-off; time.Now by default.
	Now func() time.Time
	// MaxMemory is how many bytes of memory one process of a plugin may use before it is
	// killed, as if it had crashed. The default is half of the memory limit of the
	// operator's container, and no limit if the container has none.
	MaxMemory int64
	// Fence, if set, is called before each call. It returns nil when the call may be made,
	// or an error that says why it may not.
	Fence func(context.Context) error
	// Grace is how long an abandoned call may take to end before its process is
	// restarted; 5 seconds by default.
	Grace time.Duration
}
