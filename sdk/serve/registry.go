// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/hook"
)

// executeFunc is the newest form of an action inside this package.
type executeFunc func(ctx context.Context, req *hook.Request) (*hook.Response, error)

// action is what the run-once kinds have in common, whatever their version is.
type action interface {
	Execute(ctx context.Context, req *hook.Request) (*hook.Response, error)
}

var errNilAction = errors.New("the function returned no action and no error")

// register adds an action to those of s.
func register[A action](s *Server, key id, create func() (A, error)) *Server {
	s.registry.add(key, func() (executeFunc, error) {
		a, err := create()
		if err != nil {
			return nil, err
		}
		if any(a) == nil {
			return nil, errNilAction
		}
		return a.Execute, nil
	})
	return s
}

// id identifies a registration.
type id struct {
	kind          sdk.Kind
	version, name string
}

// entry is one registration; the action is created when it is first needed.
type entry struct {
	id     id
	create func() (executeFunc, error)

	mu      sync.Mutex
	execute executeFunc
}

// get returns the action. Concurrent first calls create it once; if creating it
// fails, the next call tries again.
func (e *entry) get() (execute executeFunc, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.execute != nil {
		return e.execute, nil
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("creating the action: %w", newPanic(r))
		}
	}()
	execute, err = e.create()
	if err != nil {
		return nil, fmt.Errorf("creating the action: %w", err)
	}
	e.execute = execute
	return execute, nil
}

// registry holds what the plugin registered. It is filled before serving and only
// read after that.
type registry struct {
	order    []*entry
	entries  map[id]*entry
	problems []error
}

func (r *registry) add(key id, create func() (executeFunc, error)) {
	if err := sdk.ValidateName(key.name); err != nil {
		r.problems = append(r.problems, fmt.Errorf("registering a %s %s: %w", key.kind, key.version, err))
		return
	}
	if _, taken := r.entries[key]; taken {
		r.problems = append(r.problems, fmt.Errorf("registering %s %s %q: it is registered already", key.kind, key.version, key.name))
		return
	}
	e := &entry{id: key, create: create}
	if r.entries == nil {
		r.entries = map[id]*entry{}
	}
	r.entries[key] = e
	r.order = append(r.order, e)
}

func (r *registry) err() error {
	if len(r.problems) == 0 && len(r.order) == 0 {
		return errors.New("nothing is registered: call a Register method before Serve")
	}
	return errors.Join(r.problems...)
}
