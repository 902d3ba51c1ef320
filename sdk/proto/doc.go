// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package proto describes the wire protocol between the operator and a plugin process; the
// sub-packages grapnel/<kind>/<version> are generated from the .proto files beside them
// (make generate; buf generate in this directory does the same).
//
// Authors of plugins in Go do not need these packages: package serve speaks the protocol.
// Authors of SDKs in other languages do: start a gRPC server, print go-plugin's handshake
// line (protocol version 2, cookie VELERO_PLUGIN=hello), serve
// grapnel.plugin.v1.PluginLister and one service per kind and version.
//
// The services of Velero's kinds (item actions and object stores) are called by the names
// that Velero gives them: grapnel.backupitemaction.v2.BackupItemAction is
// v2.BackupItemAction on the wire, and a server that registers it only under its own name
// is not found. RegisterVelero and VeleroConn translate; the comment of each such service
// has its name. Their calls carry attributes beside the messages, see the Metadata
// constants. So do calls of the asynchronous item actions, whose services are specific to
// Grapnel and have the same name everywhere.
//
// A plugin writes its log to standard error, one JSON object per line with the
// keys @level, @message and @timestamp (the format of hclog). The keys named by
// the Field constants attribute a line to the call it belongs to.
//
// A plugin that the operator does not start but connects to at an address serves the same
// services there, without the handshake. Its log lines are sent through
// grapnel.plugin.v1.PluginLog. It must accept keepalive pings every 30 seconds.
//
// It is not a copy of Velero's packages: packages with messages that Velero also has use
// other names, and one binary can link both.
package proto

// The names of fields that this protocol adds to log lines.
const (
	// FieldKey holds the idempotency key of the run that a line belongs to.
	FieldKey = "@key"
	// FieldCall holds the ID of the call that a line belongs to: ExecuteRequest.call_id, or
	// the attribute MetadataCall.
	FieldCall = "@call"
	// FieldEnd holds the ID of a call in the line that follows the last log line of a call;
	// such a line has no other fields. It is written before the call is answered. See
	// CapabilityLogEnd.
	FieldEnd = "@end"
)

// CapabilityLogEnd means that the process ends the log lines of every call with a line that
// holds FieldEnd. It tells the host that it has read all of them.
const CapabilityLogEnd = "log-end"

// The handshake of go-plugin. The values are Velero's, so that one binary can
// serve both systems.
const (
	// HandshakeVersion is the version of the application protocol.
	HandshakeVersion = 2
	// HandshakeCookieKey is the environment variable that the host sets to
	// HandshakeCookieValue. It only distinguishes a manual start from a start by a host.
	HandshakeCookieKey = "VELERO_PLUGIN"
	// HandshakeCookieValue is the value of the variable HandshakeCookieKey.
	HandshakeCookieValue = "hello"
)

const (
	// MaxRequestBytes is the largest request that a plugin built with the SDK
	// accepts.
	MaxRequestBytes = 8 << 20
	// MaxResponseBytes is the largest response of a lister or a hook that the operator
	// accepts. For a response for an object it is the limit of the object (item.MaxBytes)
	// plus 2 MiB, for a list of keys 64 MiB, and for a part of an object in a store 16 MiB.
	MaxResponseBytes = 1 << 20
)

// PanicPrefix begins the status message of a call whose action panicked; the
// status code is Aborted.
const PanicPrefix = "plugin panicked: "
