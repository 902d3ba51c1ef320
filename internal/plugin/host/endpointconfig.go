// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/redact"
)

// DefaultConnectTimeout is the time limit from the first packet until the plugin has listed
// what it provides.
const DefaultConnectTimeout = 10 * time.Second

// DefaultReconnectTimeout is how long connecting is retried for a plugin that was connected
// a moment ago: a Service may point to a Pod that just ended for a second or two.
const DefaultReconnectTimeout = 10 * time.Second

// EndpointConfig describes the endpoint of one plugin.
type EndpointConfig struct {
	// Name is the name of the Plugin object, for the log.
	Name string
	// Address is host:port, or unix:///path of a socket. Required.
	Address string
	// Credentials is called for every connection to host:port, within ConnectTimeout, and
	// required there. Its error is shown to users. It is called by one goroutine at a time.
	Credentials func(ctx context.Context) (TLS, error)
	// ConnectTimeout replaces DefaultConnectTimeout. Callers with a shorter deadline do not
	// end the attempt.
	ConnectTimeout time.Duration
	// ReconnectTimeout replaces DefaultReconnectTimeout: how long connecting is retried after
	// the loss of a connection, while the address is unreachable.
	ReconnectTimeout time.Duration
	// Verify is called for every new connection before any other call, and decides whether the
	// connection may be used. Its error is returned unchanged, unless it says that the
	// services of a plugin do not exist. Required.
	Verify VerifyFunc
	// Logger is the operator's log, for lines that belong to no call.
	Logger logr.Logger
	// Redactor redacts log lines and errors; the default has no exact values.
	Redactor *redact.Redactor
	// OnLost is called, in its own goroutine, after a connection ended unexpectedly. It must
	// not call Close. Optional.
	OnLost func(plugin string)
	// Now is the clock for the back-off; time.Now by default.
	Now func() time.Time
}

// TLS configures the trust in a server and the identity of the operator. All values are
// PEM.
type TLS struct {
	// CABundle has the trusted authorities. If it is empty, the authorities of the system
	// are trusted.
	CABundle []byte
	// ServerName is the name in the server's certificate; the host of the address if it is
	// empty.
	ServerName string
	// Certificate and Key are the client certificate of the operator. Both or none.
	Certificate, Key []byte
}

func (c EndpointConfig) withDefaults() EndpointConfig {
	if c.ConnectTimeout <= 0 {
		c.ConnectTimeout = DefaultConnectTimeout
	}
	if c.ReconnectTimeout <= 0 {
		c.ReconnectTimeout = DefaultReconnectTimeout
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
	// path is the path of a socket.
	path string
	// host and port are those of a TCP address.
	host, port string
}

// parseAddress returns the target of an address, or a *StartError.
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
		return targetAddress{}, newInvalidSpecError("the port in the address %q is not a number from 1 to 65535", address)
	}
	return targetAddress{network: "tcp", host: host, port: port}, nil
}

// grpcAuthority is the :authority of calls.
func (t targetAddress) grpcAuthority() string {
	if t.network == "unix" {
		return "localhost"
	}
	return net.JoinHostPort(t.host, t.port)
}

func newInvalidSpecError(format string, args ...any) *StartError {
	return &StartError{Reason: ReasonInvalidSpec, Message: fmt.Sprintf(format, args...)}
}
