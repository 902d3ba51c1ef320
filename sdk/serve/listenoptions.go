// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// DefaultGrace is how long open calls may take to end when Listen stops: less than the
// default of 30 seconds that Kubernetes gives a container.
const DefaultGrace = 25 * time.Second

// defaultSocketMode lets the owner and the group connect: with an fsGroup, these are all
// containers of a Pod.
const defaultSocketMode fs.FileMode = 0o660

// Insecure says which protection a Listen at host:port does not have.
type Insecure string

const (
	// Plaintext disables TLS. It is for a server that is reachable only by a proxy that
	// terminates TLS, for example on a loopback address.
	Plaintext Insecure = "everybody on the way may read and change what is sent, and call"
	// AnyClient disables the verification of client certificates.
	AnyClient Insecure = "everybody who reaches the address may call"
)

// ListenOptions configure where and how Listen serves.
type ListenOptions struct {
	// Address is "unix:///path/of/socket" or "host:port"; the host may be empty, which means all
	// addresses of the host. A stale socket is replaced; a socket at which a program may listen
	// is not. Required.
	Address string
	// CertFile and KeyFile have the server's certificate, with its intermediates, and its key,
	// as PEM. They are read again for every new connection. If they have become invalid, the
	// last valid ones are used, and a line is logged. Required at host:port, not allowed for a
	// socket.
	CertFile, KeyFile string
	// ClientCAFile has the certificate authorities for client certificates, as PEM. It is
	// read again, too. Any client with a certificate from these authorities may call: use an
	// authority that issues certificates only to operators. Required at host:port.
	ClientCAFile string
	// Insecure allows omitting files: Plaintext all of them, AnyClient only ClientCAFile.
	Insecure Insecure
	// SocketMode are the permissions of a socket, 0660 by default: a client needs write
	// permission to connect.
	SocketMode fs.FileMode
	// Grace replaces DefaultGrace.
	Grace time.Duration
	// LogLevel is trace, debug, info (the default), warn or error.
	LogLevel string
	// Features are the features for which sdk.FeatureEnabled returns true.
	Features []string
	// Listening is called once, when clients can connect, with the actual address, which
	// differs if the port in Address is 0. Optional.
	Listening func(address net.Addr)
}

// listenAddress is the address at which a server listens.
type listenAddress struct{ network, address string }

// completeAndValidate returns the options with defaults, or an error that says what is
// wrong with them.
func (o ListenOptions) completeAndValidate() (ListenOptions, listenAddress, error) {
	if o.SocketMode == 0 {
		o.SocketMode = defaultSocketMode
	}
	if o.Grace <= 0 {
		o.Grace = DefaultGrace
	}
	if path, ok := strings.CutPrefix(o.Address, "unix://"); ok {
		if !filepath.IsAbs(path) {
			return o, listenAddress{}, fmt.Errorf("the address %q has no absolute path: write unix:///path/of/socket", o.Address)
		}
		if o.CertFile+o.KeyFile+o.ClientCAFile+string(o.Insecure) != "" {
			return o, listenAddress{}, errors.New("a socket is served without TLS: SocketMode decides who may connect, so leave out the files and Insecure")
		}
		return o, listenAddress{network: "unix", address: path}, nil
	}
	if _, _, err := net.SplitHostPort(o.Address); err != nil {
		return o, listenAddress{}, fmt.Errorf("the address %q is neither host:port nor unix:///path/of/socket", o.Address)
	}
	return o, listenAddress{network: "tcp", address: o.Address}, o.validateTLSFiles()
}

// validateTLSFiles returns an error if a file that protects a server on a network is missing,
// unless Insecure allows that.
func (o ListenOptions) validateTLSFiles() error {
	certificate := o.CertFile != "" && o.KeyFile != ""
	switch o.Insecure {
	case "":
		if !certificate {
			return errors.New("set CertFile and KeyFile: the data would cross the network unencrypted " +
				"(Insecure: serve.Plaintext allows this)")
		}
		if o.ClientCAFile == "" {
			return errors.New("set ClientCAFile: every client that reaches the address could call " +
				"(Insecure: serve.AnyClient allows this)")
		}
	case AnyClient:
		if !certificate || o.ClientCAFile != "" {
			return errors.New("with Insecure: serve.AnyClient set CertFile and KeyFile, and not ClientCAFile")
		}
	case Plaintext:
		if o.CertFile+o.KeyFile+o.ClientCAFile != "" {
			return errors.New("with Insecure: serve.Plaintext no file is used: leave out CertFile, KeyFile and ClientCAFile, or Insecure")
		}
	default:
		return fmt.Errorf("unknown Insecure %q: it is serve.Plaintext or serve.AnyClient", o.Insecure)
	}
	return nil
}

// openListener starts to listen. It replaces a stale socket.
func (p listenAddress) openListener(ctx context.Context, mode fs.FileMode) (net.Listener, error) {
	if p.network == "unix" {
		if err := removeStaleSocket(ctx, p.address); err != nil {
			return nil, err
		}
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, p.network, p.address)
	if err != nil || p.network != "unix" {
		return listener, err
	}
	// Until now, only the owner could connect: the usual umask removes the write permission
	// of all others.
	if err := os.Chmod(p.address, mode); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// removeStaleSocket removes a socket at which no program listens any more.
func removeStaleSocket(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("the file is not a socket: choose another path")
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = conn.Close()
		return errors.New("another program listens there: stop it, or choose another path")
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case isConnectionRefused(err):
		return os.Remove(path)
	default:
		// It may belong to another user, or have too many waiting clients.
		return fmt.Errorf("finding out whether another program listens there: %w: stop it, or remove the socket if there is none, or choose another path", err)
	}
}

// wsaConnectionRefused is the number of ECONNREFUSED on Windows, where package syscall has another one.
const wsaConnectionRefused = syscall.Errno(10061)

// isConnectionRefused reports whether connecting failed because no program listens.
func isConnectionRefused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, wsaConnectionRefused)
}
