// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/internal/plugin/caller"
	"github.com/grapnel-dev/grapnel/internal/plugin/endpoint"
	"github.com/grapnel-dev/grapnel/internal/plugin/process"
)

// server is what answers the calls of a plugin that announces its actions: a process, or an
// endpoint. It is started, or connected to, when it is needed.
type server interface {
	caller.Connection
	EnsureReady(ctx context.Context) error
	IsRunning() bool
	Close(giveUp <-chan struct{})
}

// verifyFunc decides whether a child that was started, or a connection that was made, may
// be used.
type verifyFunc func(ctx context.Context, conn grpc.ClientConnInterface) (process.Capabilities, error)

// newPluginServer returns the server of a plugin, without starting anything. ended is told that it
// ended by itself; it may be nil.
func (c *Catalog) newPluginServer(spec Spec, check verifyFunc, ended func(plugin string)) (server, error) {
	if spec.Endpoint != nil {
		made, err := endpoint.New(endpoint.Config{
			Name: spec.Name, Address: spec.Endpoint.Address, Credentials: spec.Endpoint.Credentials,
			ConnectTimeout: spec.Endpoint.ConnectTimeout, CallTimeout: c.host.CallTimeout, Verify: check,
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

// digestPlugin reads the binary of a plugin; one behind an endpoint has none here.
func digestPlugin(spec Spec, known binaryDigest) (binaryDigest, error) {
	if spec.Endpoint != nil {
		return binaryDigest{}, nil
	}
	return digestFile(spec.Process.Path, known)
}

// hasRegistrationChanged reports whether there is another plugin at an address than there was: it is a
// plugin that was upgraded. Of a process, the binary tells.
func hasRegistrationChanged(spec Spec, err error) bool {
	var start *process.StartError
	return spec.Endpoint != nil && errors.As(err, &start) && start.Reason == ReasonRegistrationChanged
}
