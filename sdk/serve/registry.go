// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"errors"
	"fmt"
	"sync"

	"github.com/grapnel-dev/grapnel/sdk"
)

var errNilAction = errors.New("the function returned no action and no error")

// registerAction adds an action to s. A is the interface of its kind and version.
func registerAction[A any](s *Server, key actionID, create func() (A, error)) *Server {
	s.registry.addRegistration(key, func() (any, error) {
		a, err := create()
		if err != nil {
			return nil, err
		}
		if any(a) == nil {
			return nil, errNilAction
		}
		return a, nil
	})
	return s
}

// actionID identifies a registration.
type actionID struct {
	kind          sdk.Kind
	version, name string
}

// registration is one registration. The action is created on first use.
type registration struct {
	id     actionID
	create func() (any, error)

	mu     sync.Mutex
	action any
}

// getOrCreateAction returns the action. Concurrent first calls create it once; if creating it
// fails, the next call tries again.
func (e *registration) getOrCreateAction() (action any, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.action != nil {
		return e.action, nil
	}
	defer func() {
		if r := recover(); r != nil {
			action, err = nil, fmt.Errorf("creating the action: %w", newPanicError(r))
		}
	}()
	action, err = e.create()
	if err != nil {
		return nil, fmt.Errorf("creating the action: %w", err)
	}
	e.action = action
	return action, nil
}

// registry has the actions that the plugin registered. It is filled before serving and only
// read after that.
type registry struct {
	order    []*registration
	entries  map[actionID]*registration
	problems []error
}

func (r *registry) addRegistration(key actionID, create func() (any, error)) {
	if err := sdk.ValidateName(key.kind, key.name); err != nil {
		r.problems = append(r.problems, fmt.Errorf("registering a %s %s: %w", key.kind, key.version, err))
		return
	}
	if _, taken := r.entries[key]; taken {
		r.problems = append(r.problems, fmt.Errorf("registering %s %s %q: it is already registered", key.kind, key.version, key.name))
		return
	}
	e := &registration{id: key, create: create}
	if r.entries == nil {
		r.entries = map[actionID]*registration{}
	}
	r.entries[key] = e
	r.order = append(r.order, e)
}

func (r *registry) validateRegistrations() error {
	if len(r.problems) == 0 && len(r.order) == 0 {
		return errors.New("nothing is registered: call a Register method before Serve")
	}
	return errors.Join(r.problems...)
}
