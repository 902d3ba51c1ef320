// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/s3"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
	"github.com/grapnel-dev/grapnel/internal/testing/s3server"
)

// world is what the rounds share: a control plane, the programs, and a client.
var world env.Env

func TestMain(m *testing.M) {
	os.Exit(world.RunTests(m, env.Options{ControllerManager: true}))
}

const (
	// roundLasts is how long the operators are disturbed in a round.
	roundLasts = 30 * time.Second
	// fewRounds is how many rounds there are if no duration is given.
	fewRounds = 2
	// firstSeed is the seed of the first of them. Both begin with a long pause while an
	// application is stopped.
	firstSeed = 52
	// prefix is where the pair stores backups.
	prefix = "pair"
)

// chosen returns the seed, and how long to continue; zero is for fewRounds.
func chosen(t *testing.T) (seed uint64, lasts time.Duration) {
	t.Helper()
	var err error
	if text := os.Getenv("CHAOS_DURATION"); text != "" {
		if lasts, err = time.ParseDuration(text); err != nil {
			t.Fatalf("CHAOS_DURATION: %v", err)
		}
		lasts = lasts * 3 / 4 // test/crash has the rest
	}
	switch text := os.Getenv("CHAOS_SEED"); {
	case text != "":
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("CHAOS_SEED: %v", err)
		}
	case lasts == 0:
		seed = firstSeed
	default:
		seed = uint64(rand.Uint32())
	}
	return seed, lasts
}

// TestPair disturbs two operators with leader election, round after round, and checks
// after each that nothing was lost, that nothing is owed and that all applications run.
func TestPair(t *testing.T) {
	seed, lasts := chosen(t)
	p := newPair(t, seed)
	for begun, n := time.Now(), uint64(0); ; n++ {
		if over := lasts > 0 && time.Since(begun) > lasts; over || (lasts == 0 && n == fewRounds) {
			t.Logf("%d rounds in %v. Done to the operators: %v", n, time.Since(begun).Round(time.Second), &p.journal.done)
			t.Logf("How the runs ended: %v", &p.journal.ran)
			return
		}
		if !t.Run(fmt.Sprintf("round with CHAOS_SEED=%d", seed+n), func(t *testing.T) { p.round(t, seed+n) }) {
			return // what is wrong now would be wrong in the next round as well
		}
	}
}

// pair is two operators, what they work on, and what is done to them.
type pair struct {
	namespace string
	bucket    *s3server.Server
	apps      []string
	members   []*member
	journal   *journal
	checker   *checker
}

// newPair starts two operators and makes one Backup.
func newPair(t *testing.T, seed uint64) *pair {
	t.Helper()
	p := &pair{namespace: world.CreateNamespace(t, "pair-"), journal: newJournal(t, fmt.Sprintf("seed-%d", seed))}
	t.Cleanup(func() { p.tellOfFailure(t) })
	bucket := s3server.Start(t, s3server.Options{})
	objects, err := s3.New(bucket.S3Options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = objects.Close() })
	for range 2 {
		p.apps = append(p.apps, newApp(t))
	}
	newPlugins(t, p.namespace, callsFile(p.namespace))
	p.createLocation(t, bucket)
	p.startMembers(t, bucket.URL)
	p.checker = &checker{
		journal: p.journal, namespace: p.namespace, apps: p.apps, members: p.members,
		objects: objects, store: storage.New(objects, prefix),
		hookRuns: &hookRuns{parents: map[string]string{}}, restored: map[string]bool{}, noted: map[types.UID]bool{},
	}
	if p.checker.before, err = workloads(t.Context(), p.apps); err != nil {
		t.Fatal(err)
	}
	p.background(t, func(ctx context.Context) { p.checker.hookRuns.run(ctx, p.namespace) })
	p.backUp(t, "first")
	// Each of them may lead later on.
	for _, m := range p.members {
		now, err := m.use(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		p.checker.use = use{max(p.checker.use.goroutines, now.goroutines), max(p.checker.use.bytes, now.bytes)}
	}
	return p
}

// background runs something until the test ends.
func (p *pair) background(t *testing.T, run func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

func (p *pair) createLocation(t *testing.T, bucket *s3server.Server) {
	t.Helper()
	p.bucket = bucket
	env.Create(t, world.Client, newCredentials(p.namespace, bucket))
	location := &v1alpha1.BackupStorageLocation{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "bucket"}}
	location.Spec = v1alpha1.BackupStorageLocationSpec{
		Default: true, Prefix: prefix,
		S3: &v1alpha1.S3Location{
			Bucket: bucket.Bucket, Endpoint: storeEndpoint, Region: "us-east-1", ForcePathStyle: true,
			CredentialsSecret: &v1alpha1.SecretReference{Name: "credentials"},
		},
	}
	env.Create(t, world.Client, location)
}

func newCredentials(namespace string, bucket *s3server.Server) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "credentials"},
		StringData: map[string]string{"accessKeyID": bucket.AccessKey, "secretAccessKey": bucket.SecretKey},
	}
}

func (p *pair) startMembers(t *testing.T, storeURL string) {
	t.Helper()
	withClock, err := operator.BuildWithClock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	programs := world.Programs
	programs.Operator, programs.ExamplePlugin = withClock, ""
	for _, name := range []string{"a", "b"} {
		m := newMember(t, name, operator.Options{
			Programs: programs, Dir: filepath.Join(world.Dir, p.namespace+"-"+name),
			Args: []string{
				"--namespace=" + p.namespace, "--leader-elect",
				fmt.Sprint("--leader-elect-lease-duration=", leaseDuration),
				fmt.Sprint("--leader-elect-renew-deadline=", renewDeadline),
				fmt.Sprint("--leader-elect-retry-period=", retryPeriod),
				"--location-check-interval=3s", "--backup-sync-interval=10s",
				"--max-concurrent-restores=3",
			},
		}, storeURL, p.journal)
		p.members = append(p.members, m)
		p.background(t, m.keep)
	}
	env.WaitFor(t, world.Client, &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: p.namespace + "-freeze"}}, "it is ready", isReady)
	for _, m := range p.members {
		for m.running() == nil {
			wait(t.Context(), 20*time.Millisecond)
		}
	}
}

func isReady(p *v1alpha1.Plugin) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1alpha1.ConditionReady && c.Status == metav1.ConditionTrue {
			return true
		}
	}
	return false
}

// backUp creates a Backup with all actions, which must complete.
func (p *pair) backUp(t *testing.T, name string) {
	t.Helper()
	b := (&load{random: rand.New(rand.NewPCG(0, 0)), namespace: p.namespace, apps: p.apps, name: name}).newBackup()
	b.Labels = map[string]string{labelUse + "quiesce": p.namespace, labelUse + "freeze": p.namespace}
	env.Create(t, world.Client, b)
	b = env.WaitFor(t, world.Client, b, "it has ended", func(b *v1alpha1.Backup) bool { return b.Status.CompletionTimestamp != nil })
	if b.Status.Phase != v1alpha1.RunPhaseCompleted {
		t.Errorf("an undisturbed Backup is %s: %s %s", b.Status.Phase, b.Status.Message, b.Status.FailureReason)
	}
}

// round disturbs for some time, and checks.
func (p *pair) round(t *testing.T, seed uint64) {
	t.Helper()
	stream := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
	name := fmt.Sprintf("s%d", seed)
	p.journal.note("%s%s", name, roundBegins)
	ctx, cancel := context.WithTimeout(t.Context(), roundLasts)
	defer cancel()
	var running sync.WaitGroup
	work := &load{random: stream(1), journal: p.journal, namespace: p.namespace, apps: p.apps, name: name}
	running.Go(func() { work.run(ctx) })
	disturb := &disturber{
		random: stream(2), journal: p.journal, members: p.members, ctx: t.Context(), namespace: p.namespace, bucket: p.bucket,
	}
	running.Go(func() { disturb.run(ctx) })
	running.Wait()
	for _, m := range p.members {
		m.heal()
	}
	if !disturb.latest.IsZero() {
		wait(t.Context(), time.Until(disturb.latest)+time.Second) // what is checked has happened then
	}
	p.journal.note("round %s: nothing disturbs any more", name)
	p.checker.random = stream(3)
	p.checker.check(t, name)
	if !t.Failed() {
		p.backUp(t, name+"-last")
	}
	if t.Failed() {
		for _, m := range p.members {
			m.dump(t.Context())
		}
	}
	p.journal.note("round %s ends, failed: %v", name, t.Failed())
}

// tellOfFailure prints and stores what is needed to debug a failed round.
func (p *pair) tellOfFailure(t *testing.T) {
	t.Helper()
	if !t.Failed() {
		return
	}
	t.Logf("what was done in the last round:\n%s", p.journal.lastRound())
	for _, m := range p.members {
		p.journal.keep(t, filepath.Join(m.opts.Dir, "operator.log"), m.name+"-operator.log")
	}
	p.journal.keep(t, callsFile(p.namespace), "calls.jsonl")
	t.Logf(`What did not hold is above what was done in the last round. To find out why:
- %s is the journal of all rounds: what was done to which operator, and which runs were made
- beside it are the logs of both operators, which end with what each goroutine did, and the calls of the actions
- "make chaos DURATION=3m SEED=N", with the N of the round that failed, begins with that round; it may take several tries`, p.journal.path)
}
