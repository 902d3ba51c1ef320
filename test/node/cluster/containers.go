// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/test/node/host"
	"github.com/grapnel-dev/grapnel/test/node/proc"
)

// endContainers ends the containers that are left: by containerd, which is started again
// for that if it was killed, and where that fails by the processes in their control
// groups. The kubelet must have ended: it would start them again.
func (l layout) endContainers(ctx context.Context, r *record) error {
	if err := l.endTasks(ctx, r); err == nil {
		return nil
	}
	for _, path := range r.Absent {
		if !strings.HasPrefix(path, "/sys/") {
			continue
		}
		ids, err := host.InCgroup(path)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := id.Stop(ctx, 0); err != nil {
				return fmt.Errorf("ending a container: %w", err)
			}
		}
	}
	return nil
}

// endTasks has containerd end them.
func (l layout) endTasks(ctx context.Context, r *record) error {
	if !r.alive(containerd) {
		left, err := proc.Marked(l.marker())
		if err != nil {
			return err
		}
		// Where no shim is left there is no container.
		if shims := withoutKnown(left, r); len(shims) == 0 {
			return nil
		}
		if err := l.startAgain(ctx, r); err != nil {
			return err
		}
	}
	tasks, err := l.ctr(ctx, "tasks", "list", "--quiet")
	if err != nil || strings.TrimSpace(tasks) == "" {
		return err
	}
	_, err = l.ctr(ctx, append([]string{"tasks", "delete", "--force"}, strings.Fields(tasks)...)...)
	return err
}

// withoutKnown leaves out the processes of the record: the others are containerd's shims.
func withoutKnown(ids []proc.ID, r *record) []proc.ID {
	known := map[proc.ID]bool{}
	for _, id := range r.Processes {
		known[id] = true
	}
	var others []proc.ID
	for _, id := range ids {
		if !known[id] {
			others = append(others, id)
		}
	}
	return others
}

// startAgain starts containerd on what an earlier one has left.
func (l layout) startAgain(ctx context.Context, r *record) error {
	const limit = 20 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	p := &processes{layout: l, record: r, ended: map[string]error{}}
	if err := p.start(l.containerd()); err != nil {
		return err
	}
	err := p.await(ctx, "containerd", []string{containerd}, func(ctx context.Context) error {
		_, err := l.ctr(ctx, "version")
		return err
	})
	if err != nil {
		return errors.Join(err, r.stop(context.WithoutCancel(ctx), containerd))
	}
	return nil
}
