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

// DefaultGrace is how long the calls that are open when a Listen is told to stop may take
// to end: less than the 30 seconds that Kubernetes gives a container by default.
const DefaultGrace = 25 * time.Second

// defaultSocketMode lets the owner and the group connect: with an fsGroup, that is every
// container of a pod.
const defaultSocketMode fs.FileMode = 0o660

// Insecure says in words which protection a Listen at host:port does without.
type Insecure string

const (
	// Plaintext does without TLS. It is for a server that only a proxy can reach that does TLS
	// in its place, on a loopback address for example.
	Plaintext Insecure = "everybody on the way may read and change what is sent, and call"
	// AnyClient does without certificates of clients.
	AnyClient Insecure = "everybody who reaches the address may call"
)

// ListenOptions say where and how Listen serves.
type ListenOptions struct {
	// Address is "unix:///path/of/socket" or "host:port"; the host may be empty, which means
	// all addresses of the machine. A socket that a server left behind is replaced, one at which
	// somebody may listen is not. Required.
	Address string
	// CertFile and KeyFile have the server's certificate, with its intermediates, and its key,
	// as PEM. They are read again for every new connection; if they have become unusable, the
	// last ones that were not are used, and a line is logged. Required at host:port, not
	// allowed for a socket.
	CertFile, KeyFile string
	// ClientCAFile has the authorities, as PEM, of which a client has to have a certificate.
	// It is read again, too. Whoever has a certificate of these authorities may call: use one
	// of which only operators have some. Required at host:port.
	ClientCAFile string
	// Insecure makes it possible to leave out files: Plaintext all of them, AnyClient
	// ClientCAFile.
	Insecure Insecure
	// SocketMode are the permissions of a socket, 0660 by default: write is what lets a
	// client connect.
	SocketMode fs.FileMode
	// Grace replaces DefaultGrace.
	Grace time.Duration
	// LogLevel is trace, debug, info (the default), warn or error.
	LogLevel string
	// Features are those that sdk.FeatureEnabled knows.
	Features []string
	// Listening is called once, when clients can connect, with the address: that has the port
	// if the one in Address is 0. Optional.
	Listening func(address net.Addr)
}

// listenAddress is where a server listens.
type listenAddress struct{ network, address string }

// completeAndValidate returns the options with their defaults, or what is wrong with them.
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
			return o, listenAddress{}, errors.New("a socket is served without TLS: who may connect is decided by SocketMode, so leave out the files and Insecure")
		}
		return o, listenAddress{network: "unix", address: path}, nil
	}
	if _, _, err := net.SplitHostPort(o.Address); err != nil {
		return o, listenAddress{}, fmt.Errorf("the address %q is neither host:port nor unix:///path/of/socket", o.Address)
	}
	return o, listenAddress{network: "tcp", address: o.Address}, o.validateTLSFiles()
}

// validateTLSFiles returns an error unless there is all that protects a server on a network, or
// Insecure says that it may be missing.
func (o ListenOptions) validateTLSFiles() error {
	certificate := o.CertFile != "" && o.KeyFile != ""
	switch o.Insecure {
	case "":
		if !certificate {
			return errors.New("set CertFile and KeyFile: what is sent would cross the network in the clear " +
				"(Insecure: serve.Plaintext does without)")
		}
		if o.ClientCAFile == "" {
			return errors.New("set ClientCAFile: everybody who reaches the address could call " +
				"(Insecure: serve.AnyClient does without)")
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

// openListener begins to listen. A socket that a server left behind is replaced.
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
	// Until now, only the owner could connect: the umask of any program takes the right to
	// write from all others.
	if err := os.Chmod(p.address, mode); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// removeStaleSocket removes a socket at which nobody listens any more.
func removeStaleSocket(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("there is something else than a socket: choose another path")
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = conn.Close()
		return errors.New("another program listens there: end it, or choose another path")
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case isConnectionRefused(err):
		return os.Remove(path)
	default:
		// It may be of another user, or have too many clients that wait.
		return fmt.Errorf("finding out whether another program listens there: %w: end it, or remove the socket if there is none, or choose another path", err)
	}
}

// wsaConnectionRefused is the number of ECONNREFUSED on Windows, where package syscall has another one.
const wsaConnectionRefused = syscall.Errno(10061)

// isConnectionRefused reports whether an error of connecting says that nobody listens.
func isConnectionRefused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, wsaConnectionRefused)
}
