// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/faultproxy"
	"github.com/grapnel-dev/grapnel/internal/testing/s3server"
)

// The times of leader election of the pair. Disturbances are measured in them.
const (
	leaseDuration = 5 * time.Second
	renewDeadline = 3 * time.Second
	retryPeriod   = 500 * time.Millisecond
)

// patience is how long a moment is waited for.
const patience = 6 * time.Second

// process is what pauses and kills do not go together with.
const process = "process"

// disturber does something to the members at random times, until its context ends.
type disturber struct {
	random  *rand.Rand
	members []*member
	journal *journal
	// ctx ends with the test.
	ctx       context.Context //nolint:containedctx // what is changed is changed back after the round
	namespace string
	bucket    *s3server.Server
	// latest is when the last write arrives that is late.
	latest time.Time

	mu sync.Mutex
	// busy are the members, and what is done to them.
	busy    map[string]bool
	running sync.WaitGroup
}

// disturbance is one thing to do. begin starts it and says how it is undone.
type disturbance struct {
	name   string
	weight int
	// inWrite is its weight in the middle of a write.
	inWrite int
	// exclusive says what it does not go together with at the same member.
	exclusive string
	// both says that it is done to both members.
	both  bool
	begin func(d *disturber, m *member, random *rand.Rand) (undo func())
}

// moment is a request that something is done at. A member is disturbed where it hurts:
// between what it recorded and what it does, or between two parts of that.
type moment struct {
	// name is empty for any time.
	name    string
	weight  int
	request *regexp.Regexp
	// content, if set, is what the request says.
	content *regexp.Regexp
	// mayBeLate says that the request may be carried out when others have gone on. That it
	// is checked then is what versions and put-if-absent are for.
	mayBeLate bool
}

func moments() []moment {
	return []moment{
		{weight: 3},
		{
			name: "when it stops an application", weight: 4, mayBeLate: true,
			request: workloadWrite, content: regexp.MustCompile(`"replicas":0|"suspend":true`),
		},
		{name: "when it stops or starts an application", weight: 1, mayBeLate: true, request: workloadWrite},
		{name: "when it records a HookRun", weight: 1, mayBeLate: true, request: regexp.MustCompile(`^(PATCH|POST) .*/hookruns`)},
		{name: "when it records a run", weight: 1, mayBeLate: true, request: regexp.MustCompile(`^PATCH .*/(backups|restores|deletionruns)/.*/status$`)},
		{name: "when it stores an archive", weight: 3, mayBeLate: true, request: regexp.MustCompile(`^PUT .*\.tar\.gz`)},
		{name: "when it commits a backup", weight: 2, mayBeLate: true, request: regexp.MustCompile(`^PUT .*(-grapnel|/velero-backup)\.json`)},
		// No store deletes under a condition.
		{name: "when it destroys files", weight: 1, request: regexp.MustCompile(`^DELETE .*/backups/`)},
		{name: "when it renews its lease", weight: 1, mayBeLate: true, request: regexp.MustCompile(`^PUT .*/leases/`)},
	}
}

// isOf reports whether a request is the moment.
func (m *moment) isOf(r *faultproxy.Request) bool {
	return m.request.MatchString(r.Method+" "+r.URL.Path) && (m.content == nil || m.content.Match(r.ReadBody()))
}

func disturbances() []disturbance {
	return []disturbance{
		{name: "pause", weight: 5, inWrite: 12, exclusive: process, begin: func(_ *disturber, m *member, _ *rand.Rand) func() {
			m.signal(syscall.SIGSTOP)
			return func() { m.signal(syscall.SIGCONT) }
		}},
		{name: "kill", weight: 2, inWrite: 3, exclusive: process, begin: func(_ *disturber, m *member, _ *rand.Rand) func() {
			m.signal(syscall.SIGKILL)
			return func() {}
		}},
		{name: "partition from the API server", weight: 3, inWrite: 3, exclusive: "api", begin: func(_ *disturber, m *member, random *rand.Rand) func() {
			m.api.Partition(anyMode(random))
			return m.api.Heal
		}},
		{name: "partition from the store", weight: 2, inWrite: 2, exclusive: "store", begin: func(_ *disturber, m *member, random *rand.Rand) func() {
			m.store.Partition(anyMode(random))
			return m.store.Heal
		}},
		{name: "hold watches", weight: 2, inWrite: 2, exclusive: "api", begin: func(_ *disturber, m *member, _ *rand.Rand) func() {
			m.api.HoldWatches()
			return m.api.Heal
		}},
		{name: "cut watches", weight: 1, inWrite: 1, exclusive: "api", begin: func(_ *disturber, m *member, _ *rand.Rand) func() {
			m.api.CutWatches()
			return func() {}
		}},
		{name: "failing requests to the API server", weight: 3, inWrite: 3, exclusive: "api", begin: hurtAPI(failing)},
		{name: "failing requests to the store", weight: 3, inWrite: 3, exclusive: "store", begin: hurtStore(failing)},
		{name: "API server that forbids requests", weight: 1, inWrite: 1, exclusive: "api", begin: hurtAPI(forbidden)},
		{name: "store that forbids requests", weight: 1, inWrite: 1, exclusive: "store", begin: hurtStore(forbidden)},
		{name: "slow API server", weight: 2, inWrite: 1, exclusive: "api", begin: hurtAPI(slow)},
		{name: "slow store", weight: 2, inWrite: 1, exclusive: "store", begin: hurtStore(slow)},
		{name: "wrong clock", weight: 2, inWrite: 1, exclusive: "clock", begin: func(d *disturber, m *member, random *rand.Rand) func() {
			steps := []time.Duration{-50 * time.Minute, -5 * time.Minute, -20 * time.Second, 20 * time.Second, 5 * time.Minute, 50 * time.Minute}
			d.setClock(m, steps[random.IntN(len(steps))])
			return func() { d.setClock(m, 0) }
		}},
		{name: "restart of the API server", weight: 1, inWrite: 1, exclusive: "server", both: true, begin: func(d *disturber, _ *member, _ *rand.Rand) func() {
			if err := world.ControlPlane.KillAPIServer(); err != nil {
				d.journal.note("%v", err)
				return func() {}
			}
			return d.startAPIServer
		}},
		{name: "missing credentials", weight: 1, inWrite: 1, exclusive: "credentials", both: true, begin: func(d *disturber, _ *member, _ *rand.Rand) func() {
			return d.change("the credentials are removed", func(ctx context.Context) error {
				return client.IgnoreNotFound(world.Client.Delete(ctx, newCredentials(d.namespace, d.bucket)))
			}, "the credentials are back", func(ctx context.Context) error {
				return client.IgnoreAlreadyExists(world.Client.Create(ctx, newCredentials(d.namespace, d.bucket)))
			})
		}},
		{name: "suspended Plugin", weight: 1, inWrite: 1, exclusive: "plugin", both: true, begin: func(d *disturber, _ *member, random *rand.Rand) func() {
			plugin := &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: d.namespace + []string{"-quiesce", "-freeze"}[random.IntN(2)]}}
			suspend := func(suspend bool) func(ctx context.Context) error {
				return func(ctx context.Context) error {
					return world.Client.Patch(ctx, plugin, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"suspend":%v}}`, suspend)))
				}
			}
			return d.change(plugin.Name+" is suspended", suspend(true), plugin.Name+" is used again", suspend(false))
		}},
	}
}

// change changes what both members read. What it returns undoes that, however often it has
// to be tried.
func (d *disturber) change(name string, do func(ctx context.Context) error, undone string, undo func(ctx context.Context) error) func() {
	try := func(name string, change func(ctx context.Context) error) error {
		ctx, cancel := context.WithTimeout(d.ctx, 5*time.Second)
		defer cancel()
		err := change(ctx)
		d.journal.note("%s (%v)", name, err)
		return err
	}
	_ = try(name, do) // it may have been done all the same
	return func() {
		for begun := time.Now(); time.Since(begun) < time.Minute; wait(d.ctx, time.Second) {
			if try(undone, undo) == nil {
				return
			}
		}
	}
}

func (d *disturber) setClock(m *member, step time.Duration) {
	d.journal.note("%s: the clock is wrong by %v", m.name, step)
	if err := m.step(step); err != nil {
		d.journal.note("%s: %v", m.name, err)
	}
}

func (d *disturber) startAPIServer() {
	if err := world.ControlPlane.StartAPIServer(); err != nil {
		d.journal.note("%v", err)
		return
	}
	d.journal.note("the API server serves again")
}

func anyMode(random *rand.Rand) faultproxy.Mode {
	return []faultproxy.Mode{faultproxy.Refuse, faultproxy.Hang}[random.IntN(2)]
}

func hurtAPI(how func(func(n int) int) faultproxy.Fault) func(*disturber, *member, *rand.Rand) func() {
	return func(_ *disturber, m *member, random *rand.Rand) func() { return hurt(m, m.api, how, random) }
}

func hurtStore(how func(func(n int) int) faultproxy.Fault) func(*disturber, *member, *rand.Rand) func() {
	return func(_ *disturber, m *member, random *rand.Rand) func() { return hurt(m, m.store, how, random) }
}

// hurt gives a fault to some of the requests, which come from several goroutines.
func hurt(m *member, p *faultproxy.Proxy, how func(func(n int) int) faultproxy.Fault, random *rand.Rand) (undo func()) {
	var mu sync.Mutex
	own, share := rand.New(rand.NewPCG(random.Uint64(), 0)), 20+random.IntN(60)
	m.setHurt(p, func() faultproxy.Fault {
		mu.Lock()
		defer mu.Unlock()
		if own.IntN(100) >= share {
			return faultproxy.Fault{}
		}
		return how(own.IntN)
	})
	return func() { m.setHurt(p, nil) }
}

// failing returns a fault after which a request is answered otherwise, or not.
func failing(number func(n int) int) faultproxy.Fault {
	all := faultproxy.TransientFaults()
	return all[number(len(all))]
}

// forbidden returns a fault like that of rights or credentials that are taken away.
func forbidden(func(n int) int) faultproxy.Fault {
	return faultproxy.Fault{Status: http.StatusForbidden}
}

// slow returns a fault after which a request is answered later.
func slow(number func(n int) int) faultproxy.Fault {
	return faultproxy.Fault{Delay: time.Duration(50+number(800)) * time.Millisecond, Detached: number(4) == 0}
}

// run disturbs until the context ends, and undoes all of it.
func (d *disturber) run(ctx context.Context) {
	d.busy = map[string]bool{}
	defer d.running.Wait()
	for first := true; ctx.Err() == nil; first = false {
		at := d.moment(first)
		next := d.choose(at, first)
		m, lasts := d.members[d.random.IntN(len(d.members))], d.duration(next, at)
		gap := time.Duration(d.random.IntN(2500)) * time.Millisecond
		if first && d.random.IntN(2) == 0 {
			gap = 3 * leaseDuration // a successor can do everything that there is to do
		}
		isLate, isRare := d.random.IntN(2) == 0, d.random.IntN(3) > 0
		own := rand.New(rand.NewPCG(d.random.Uint64(), 0))
		waits := patience
		if first {
			waits *= 2 // runs have just been created
		}
		var late time.Time
		if end, ok := ctx.Deadline(); ok && isLate && at.mayBeLate {
			late = time.Now().Add(waits + lasts + leaseDuration)
			switch {
			case first:
				late = end.Add(3 * leaseDuration) // when others have done everything
			case late.After(end):
				late = end
			}
		}
		m, what := d.awaitMoment(ctx, m, at, late, waits)
		// Two operators that are both gone show less than one whose successor works.
		if !isRare || next.exclusive != process || !d.isAnyBusy(process) {
			d.start(ctx, next, m, what, lasts, own)
		}
		wait(ctx, gap)
	}
}

// duration is so short that the lease is kept, or so long that another member takes it and
// does everything that there is to do. In the middle of a write most are of the second kind.
func (d *disturber) duration(next disturbance, at moment) time.Duration {
	short, one := time.Duration(200+d.random.IntN(2000))*time.Millisecond, d.random.Int64N(int64(leaseDuration))
	if next.both {
		return short + time.Duration(one)
	}
	switch n := d.random.IntN(6); {
	case n == 0, n == 1 && at.request == nil:
		return short
	case next.exclusive == process && at.request != nil:
		return 2*leaseDuration + time.Duration(2*one)
	default:
		return leaseDuration + time.Duration(3*one)
	}
}

// choose chooses what to do. The first disturbance of a round meets operators that work,
// and ends or pauses one of them.
func (d *disturber) choose(at moment, first bool) disturbance {
	return chooseBy(d.random, disturbances(), func(one disturbance) int {
		switch {
		case first && one.exclusive != process:
			return 0
		case at.request != nil:
			return one.inWrite
		}
		return one.weight
	})
}

// moment chooses when to do it. The first disturbance of a round is in the middle of a write
// that others must not repeat, or not in another order.
func (d *disturber) moment(first bool) moment {
	return chooseBy(d.random, moments(), func(one moment) int {
		if first && !one.mayBeLate {
			return 0
		}
		return one.weight
	})
}

// chooseBy chooses one of several, more often those that weigh more.
func chooseBy[T any](random *rand.Rand, all []T, weight func(T) int) T {
	sum := 0
	for _, one := range all {
		sum += weight(one)
	}
	n := random.IntN(sum)
	for _, one := range all {
		if n -= weight(one); n < 0 {
			return one
		}
	}
	panic("unreachable")
}

// awaitMoment waits until a member sends such a request, and returns it; if none does for
// some time, the one that was chosen otherwise. With late, the request arrives at that time, whatever becomes of the
// member.
func (d *disturber) awaitMoment(ctx context.Context, m *member, at moment, late time.Time, waits time.Duration) (who *member, what string) {
	const anyTime = " at any time"
	if at.request == nil {
		return m, anyTime
	}
	one := &trap{moment: at, late: late, sprung: make(chan *member, 1)}
	what = " " + at.name
	if !late.IsZero() {
		what += " by a request that arrives at " + late.UTC().Format("15:04:05.000")
	}
	for _, each := range d.members {
		disarm := each.arm(one)
		defer disarm()
	}
	timer := time.NewTimer(waits)
	defer timer.Stop()
	select {
	case who := <-one.sprung:
		if late.After(d.latest) {
			d.latest = late
		}
		return who, what
	case <-timer.C:
	case <-ctx.Done():
	}
	return m, anyTime
}

// isAnyBusy reports whether a member is disturbed in such a way.
func (d *disturber) isAnyBusy(exclusive string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.members {
		if d.busy[m.name+exclusive] {
			return true
		}
	}
	return false
}

func (d *disturber) start(ctx context.Context, next disturbance, m *member, at string, lasts time.Duration, random *rand.Rand) {
	key := m.name + next.exclusive
	if next.both {
		key = next.exclusive
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	// More than three at a time leave nothing that works.
	if ctx.Err() != nil || d.busy[key] || len(d.busy) >= 3 {
		return
	}
	d.busy[key] = true
	d.journal.done.add(next.name)
	d.journal.note("%s: %s%s for %v", m.name, next.name, at, lasts.Round(time.Millisecond))
	undo := next.begin(d, m, random)
	d.running.Go(func() {
		wait(ctx, lasts)
		undo()
		d.journal.note("%s: end of %s", m.name, next.name)
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.busy, key)
	})
}
