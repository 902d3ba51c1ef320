// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
)

// wantClosed makes a call that must be rejected because of Close.
func (c *client) wantClosed(t *testing.T) {
	t.Helper()
	if _, err := c.execute(t.Context(), plugintesting.NewLog(t), "", "late"); !errors.Is(err, ErrUnloaded) {
		t.Errorf("a call after Close returned %v", err)
	}
}

func TestEndpoint_CloseWaitsForCalls(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	c := s.newClient(t)
	answer := c.wait(t.Context(), t, s.action, "open")
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		c.Close(nil)
	}()
	plugintesting.Eventually(t, "Close has begun", func() bool { return !c.IsRunning() })
	c.wantClosed(t)
	select {
	case <-closed:
		t.Error("Close did not wait for the open call")
	default:
	}
	close(s.action.release)
	if err := <-answer; err != nil {
		t.Errorf("the open call returned %v", err)
	}
	<-closed
	if err := c.EnsureReady(t.Context()); !errors.Is(err, ErrUnloaded) {
		t.Errorf("Ensure after Close returned %v", err)
	}
	if told := len(c.lost); told > 0 {
		t.Error("OnLost was called for an expected end")
	}
}

func TestEndpoint_CloseGivesUp(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	c := s.newClient(t)
	answer := c.wait(t.Context(), t, s.action, "open")
	giveUp := make(chan struct{})
	close(giveUp)
	c.Close(giveUp)
	var lost *LostError
	if err := <-answer; !errors.As(err, &lost) || !contains(lost.Message, "unloaded") {
		t.Errorf("the open call returned %v, want a LostError", err)
	}
	c.wantClosed(t)
	if err := <-s.action.ended; err == nil {
		t.Error("the context of the action did not end")
	}
	c.Close(nil)
}

func TestEndpoint_CloseWhileConnecting(t *testing.T) {
	t.Parallel()
	address, accepted := silent(t)
	c := newClient(t, address, noCredentials)
	answer := make(chan error, 1)
	go func() {
		_, err := c.execute(t.Context(), plugintesting.NewLog(t), "", "early")
		answer <- err
	}()
	<-accepted
	c.Close(nil)
	if err := <-answer; !errors.Is(err, ErrUnloaded) {
		t.Errorf("the call that waited returned %v", err)
	}
	c.wantClosed(t)
}
