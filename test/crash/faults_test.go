// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/testing/faultproxy"
)

// fault is what happens to one write of a run, after which the operator continues.
type fault struct {
	target target
	at     point
	what   faultproxy.Fault
}

func (f fault) String() string { return fmt.Sprintf("%s write %s: %s", f.target, f.at, f.what) }

// TestFaults disturbs writes of a run, one in each run, and the operator lives on: the
// run ends like one that was not disturbed.
func TestFaults(t *testing.T) {
	s := newSite(t)
	for i, kind := range []lifecycle.KindTraits{lifecycle.BackupKind, lifecycle.RestoreKind, lifecycle.DeletionRunKind} {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			scene := ordinary(kind, "faulty")
			l := s.newTestOperator(t, scene)
			want, recorded := scene.record(t, l)
			lasts, begun := chaosLasts(t), time.Now()
			for n, f := range chosenFaults(t, recorded, uint64(i), lasts > 0) {
				if lasts > 0 && time.Since(begun) > lasts {
					return
				}
				t.Run(fmt.Sprint(n+1), func(t *testing.T) { scene.suffer(t, l, want, f) })
			}
		})
	}
}

// suffer makes a run with a fault, and compares it with one without.
func (s scenario) suffer(t *testing.T, l *testOperator, want result, f fault) {
	t.Helper()
	d := &disturbance{api: &trap{}, store: &trap{}}
	armed := d.api
	if f.target == store {
		armed = d.store
	}
	armed.kind, armed.at, armed.fault = f.at.kind, f.at.n, f.what
	s.prepare(t, l, d)
	last, ends := l.run(t, *d)
	hits := armed.disarm()
	if ends > 0 {
		t.Errorf("the operator ended %d times", ends)
	}
	// Not every run has as many writes of a kind as the recorded one.
	if hits == 0 && f.at.n == 1 {
		t.Error("no such write was made")
	}
	t.Logf("%s, %d times", f, hits)
	s.compare(t, l, want, last, 0, false)
	if t.Failed() {
		t.Logf("--- log of the operator\n%s", l.op().LastLogLines())
	}
}

// delayed is a write that takes longer than anything else.
var delayed = faultproxy.Fault{Delay: 500 * time.Millisecond}

// chosenFaults returns the faults of the runs of a kind of work. Usually each class of
// writes suffers two of them, which are others for the next class.
func chosenFaults(t *testing.T, recorded disturbance, stream uint64, anyOrder bool) []fault {
	t.Helper()
	kinds := append(faultproxy.TransientFaults(), delayed)
	var all, chosen []fault
	for _, target := range []target{api, store} {
		list := sweep{target: target}.points(recorded)
		for _, at := range list {
			for _, what := range kinds {
				all = append(all, fault{target, at, what})
			}
		}
		for n := range 2 {
			for i, at := range some(list, n, true) {
				chosen = append(chosen, fault{target, at, kinds[(2*i+n*3)%len(kinds)]})
			}
		}
	}
	switch {
	case !anyOrder && os.Getenv(long) != "":
		return all
	case !anyOrder:
		return chosen
	}
	seed := uint64(rand.Uint32())
	if text := os.Getenv("CHAOS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("CHAOS_SEED: %v", err)
		}
	}
	t.Logf("CHAOS_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, stream))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// chaosLasts is how long faults are injected at random; zero is for a choice of them.
func chaosLasts(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("CHAOS_DURATION")
	if text == "" {
		return 0
	}
	lasts, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("CHAOS_DURATION: %v", err)
	}
	return lasts / 4 // test/faults/chaos has the rest
}
