// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/internal/plugin/process"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

// DefaultConnectTimeout is how long it may take from the first packet until the plugin
// has answered what it provides.
const DefaultConnectTimeout = 10 * time.Second

// DefaultReconnectTimeout is how long a plugin that was there a moment ago is waited for: a
// Service may point to the pod that just ended for a second or two.
const DefaultReconnectTimeout = 10 * time.Second

// Config describes the endpoint of one plugin.
type Config struct {
	// Name is the name of the Plugin object, for the log.
	Name string
	// Address is host:port, or unix:///path of a socket. Required.
	Address string
	// Credentials is called for every connection to host:port, within ConnectTimeout, and
	// required there. Its error is shown to people. It is called by one goroutine at a time.
	Credentials func(ctx context.Context) (TLS, error)
	// ConnectTimeout replaces DefaultConnectTimeout. Callers that have less time than that do
	// not end the attempt.
	ConnectTimeout time.Duration
	// ReconnectTimeout replaces DefaultReconnectTimeout: how long an attempt is repeated that
	// follows the loss of a connection, while nobody is at the address.
	ReconnectTimeout time.Duration
	// CallTimeout bounds a call whose ctx has no deadline: process.DefaultCallTimeout if it is
	// zero.
	CallTimeout time.Duration
	// Verify is called for every new connection before it gets any other call, and decides
	// whether it may be used. Its error is returned as it is, unless it says that the services
	// of a plugin are not there. Of what it finds out nothing is needed here. Required.
	Verify func(ctx context.Context, conn grpc.ClientConnInterface) (process.Capabilities, error)
	// Logger is the operator's log: for lines that belong to no call.
	Logger logr.Logger
	// Redactor cleans log lines and errors; by default one without exact values.
	Redactor *redact.Redactor
	// OnLost is called, from a goroutine of its own, after a connection ended without having
	// been told to. It must not call Close. Optional.
	OnLost func(plugin string)
	// Now is the clock of the back-off; time.Now by default.
	Now func() time.Time
}

// TLS is how a server is trusted, and who the operator is. Texts are PEM.
type TLS struct {
	// CABundle has the authorities that are trusted; those of the system if it is empty.
	CABundle []byte
	// ServerName is the name in the server's certificate; the host of the address if it is
	// empty.
	ServerName string
	// Certificate and Key prove who the operator is. Both or none.
	Certificate, Key []byte
}

func (c Config) withDefaults() Config {
	if c.ConnectTimeout <= 0 {
		c.ConnectTimeout = DefaultConnectTimeout
	}
	if c.ReconnectTimeout <= 0 {
		c.ReconnectTimeout = DefaultReconnectTimeout
	}
	if c.CallTimeout <= 0 {
		c.CallTimeout = process.DefaultCallTimeout
	}
	if c.Redactor == nil {
		c.Redactor = redact.New()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// targetAddress is a parsed address.
type targetAddress struct {
	// network is "unix" or "tcp".
	network string
	// path is that of a socket.
	path string
	// host and port are the rest.
	host, port string
}

// parseAddress returns the target of an address, or a *process.StartError.
func parseAddress(address string) (targetAddress, error) {
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		if !filepath.IsAbs(path) {
			return targetAddress{}, newInvalidSpecError("the address %q has no absolute path: write unix:///path/of/socket", address)
		}
		return targetAddress{network: "unix", path: path}, nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return targetAddress{}, newInvalidSpecError("the address %q is neither host:port nor unix:///path/of/socket", address)
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
		return targetAddress{}, newInvalidSpecError("the port in the address %q is no number from 1 to 65535", address)
	}
	return targetAddress{network: "tcp", host: host, port: port}, nil
}

// grpcAuthority is what calls name as the server they are for.
func (t targetAddress) grpcAuthority() string {
	if t.network == "unix" {
		return "localhost"
	}
	return net.JoinHostPort(t.host, t.port)
}

func newInvalidSpecError(format string, args ...any) *process.StartError {
	return &process.StartError{Reason: process.ReasonInvalidSpec, Message: fmt.Sprintf(format, args...)}
}
