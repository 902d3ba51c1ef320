// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// locks keep two calls from working on one volume or snapshot, unless both only read it. No call
// waits for another one: as CSI suggests, the later one is aborted, and its caller tries again.
type locks struct {
	mu sync.Mutex
	// users is the number of readers of an ID, or -1 if a call changes it.
	users map[string]int
}

// acquire locks the IDs that a call changes and those that it reads. The caller must call release.
func (l *locks) acquire(changed, read []string) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range changed {
		if l.users[id] != 0 {
			return nil, status.Errorf(codes.Aborted, "another call is at work on %s", id)
		}
	}
	for _, id := range read {
		if l.users[id] < 0 {
			return nil, status.Errorf(codes.Aborted, "another call changes %s", id)
		}
	}
	for _, id := range changed {
		l.users[id] = -1
	}
	for _, id := range read {
		l.users[id]++
	}
	return func() { l.release(changed, read) }, nil
}

func (l *locks) release(changed, read []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range changed {
		delete(l.users, id)
	}
	for _, id := range read {
		if l.users[id]--; l.users[id] == 0 {
			delete(l.users, id)
		}
	}
}
