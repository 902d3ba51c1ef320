// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"errors"

	"github.com/grapnel-dev/grapnel/internal/plugin/host"
)

// newPluginServer returns the server of a plugin, without starting anything. ended is called when
// the server ended by itself; it may be nil.
func (c *Catalog) newPluginServer(spec Spec, check host.VerifyFunc, ended func(plugin string)) (host.Connection, error) {
	if spec.Endpoint != nil {
		made, err := host.NewEndpoint(host.EndpointConfig{
			Name: spec.Name, Address: spec.Endpoint.Address, Credentials: spec.Endpoint.Credentials,
			ConnectTimeout: spec.Endpoint.ConnectTimeout, Verify: check,
			Logger: c.settings.Logger, Redactor: c.settings.Redactor, OnLost: ended, Now: c.settings.Now,
		})
		if err != nil {
			return nil, err
		}
		return made, nil
	}
	settings := c.settings
	settings.OnExit = ended
	made, err := host.NewProcess(settings, host.ProcessConfig{
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
	var start *host.StartError
	return spec.Endpoint != nil && errors.As(err, &start) && start.Reason == ReasonRegistrationChanged
}
