// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/plugin/endpoint"
	"github.com/grapnel-dev/grapnel/internal/plugin/process"
)

// server serves the calls of a plugin that lists its actions: a process or an endpoint. It
// is started, or connected to, on demand.
type server interface {
	pluginclient.Connection
	EnsureReady(ctx context.Context) error
	IsRunning() bool
	Close(giveUp <-chan struct{})
}

// verifyFunc decides whether a started child or a new connection may be used.
type verifyFunc func(ctx context.Context, conn grpc.ClientConnInterface) (process.Capabilities, error)

// newPluginServer returns the server of a plugin, without starting anything. ended is called when
// the server ended by itself; it may be nil.
func (c *Catalog) newPluginServer(spec Spec, check verifyFunc, ended func(plugin string)) (server, error) {
	if spec.Endpoint != nil {
		made, err := endpoint.New(endpoint.Config{
			Name: spec.Name, Address: spec.Endpoint.Address, Credentials: spec.Endpoint.Credentials,
			ConnectTimeout: spec.Endpoint.ConnectTimeout, Verify: check,
			Logger: c.host.Logger, Redactor: c.host.Redactor, OnLost: ended, Now: c.host.Now,
		})
		if err != nil {
			return nil, err
		}
		return made, nil
	}
	host := c.host
	host.OnExit = ended
	made, err := process.New(host, process.Config{
		Name: spec.Name, Path: spec.Process.Path, Args: spec.Process.Args, Env: spec.Process.Env,
		StartTimeout: spec.Process.StartTimeout, Verify: check,
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

// digestPlugin returns the digest of the binary of a plugin; a plugin behind an endpoint
// has none.
func digestPlugin(spec Spec, known binaryDigest) (binaryDigest, error) {
	if spec.Endpoint != nil {
		return binaryDigest{}, nil
	}
	return digestFile(spec.Process.Path, known)
}

// hasRegistrationChanged reports whether the plugin at an address was upgraded and provides other
// actions. For a process, the binary shows this.
func hasRegistrationChanged(spec Spec, err error) bool {
	var start *process.StartError
	return spec.Endpoint != nil && errors.As(err, &start) && start.Reason == ReasonRegistrationChanged
}
