// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

const (
	// calmWithin is how long the operators have, once nothing disturbs them any more, for
	// everything that is under way or owed. Whoever owes clean-up waits for a minute at
	// most between two tries, and so does who starts applications that were forgotten.
	calmWithin = 150 * time.Second
	// restores is how many backups are restored after each round.
	restores = 3
	// quiescedKey is the label and the annotation of a workload that is stopped.
	quiescedKey = "grapnel.dev/quiesced"
)

// checker checks the invariants after each round.
type checker struct {
	journal   *journal
	random    *rand.Rand
	namespace string
	apps      []string
	objects   objectstore.Store
	store     *storage.Store
	hookRuns  *hookRuns
	members   []*member
	// before are the workloads as they were made, and use is the most that an operator used
	// before anything disturbed it.
	before map[string]string
	use    use
	// restored are the Backups that were restored.
	restored map[string]bool
	// noted are the runs whose outcome was recorded.
	noted map[types.UID]bool
}

// awaitCalm waits until nothing is under way, nothing is owed and all applications run,
// and returns what is still so when the time is over.
func (c *checker) awaitCalm(ctx context.Context) (problems []string) {
	for deadline := time.Now().Add(calmWithin); ; wait(ctx, 500*time.Millisecond) {
		found, err := c.unfinished(ctx)
		if err != nil {
			found = []string{err.Error()}
		}
		if len(found) == 0 || time.Now().After(deadline) {
			return found
		}
	}
}

// unfinished returns what has not come to its end.
func (c *checker) unfinished(ctx context.Context) (problems []string, err error) {
	var (
		backups   v1alpha1.BackupList
		restores  v1alpha1.RestoreList
		deletions v1alpha1.DeletionRunList
		runs      v1alpha1.HookRunList
	)
	for _, list := range []client.ObjectList{&backups, &restores, &deletions, &runs} {
		if err := world.Client.List(ctx, list, client.InNamespace(c.namespace)); err != nil {
			return nil, err
		}
	}
	add := func(o client.Object, status *v1alpha1.RunStatus, phase string) {
		text := fmt.Sprintf("%T %s, %s %q", o, o.GetName(), phase, status.Message)
		switch {
		case status.CompletionTimestamp == nil:
			problems = append(problems, "unfinished: "+text)
		case len(o.GetFinalizers()) > 0:
			problems = append(problems, fmt.Sprintf("still held by %v: %s", o.GetFinalizers(), text))
		case o.GetDeletionTimestamp() != nil:
			problems = append(problems, "still there: "+text)
		}
		for _, condition := range status.Conditions {
			if condition.Type == v1alpha1.ConditionCleanupOwed && condition.Status == "True" {
				problems = append(problems, fmt.Sprintf("owed: %s: %s", text, condition.Message))
			}
		}
	}
	for i := range backups.Items {
		add(&backups.Items[i], &backups.Items[i].Status.RunStatus, string(backups.Items[i].Status.Phase))
	}
	for i := range restores.Items {
		add(&restores.Items[i], &restores.Items[i].Status.RunStatus, string(restores.Items[i].Status.Phase))
	}
	for i := range deletions.Items {
		add(&deletions.Items[i], &deletions.Items[i].Status.RunStatus, string(deletions.Items[i].Status.Phase))
	}
	for i := range runs.Items {
		if run := &runs.Items[i]; run.Status.CompletionTimestamp == nil {
			problems = append(problems, fmt.Sprintf("unfinished: HookRun %s, %s", run.Name, run.Status.Phase))
		}
	}
	now, err := workloads(ctx, c.apps)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.before)) {
		if now[name] != c.before[name] {
			problems = append(problems, fmt.Sprintf("not as it was: %s: %s, was %s", name, now[name], c.before[name]))
		}
	}
	return problems, nil
}

// workloads returns how the workloads of some namespaces are meant to run.
func workloads(ctx context.Context, namespaces []string) (map[string]string, error) {
	found := map[string]string{}
	add := func(kind string, o client.Object, runs string) {
		if mark := o.GetAnnotations()[quiescedKey] + o.GetLabels()[quiescedKey]; mark != "" {
			runs += ", stopped by " + mark
		}
		found[fmt.Sprintf("%s %s/%s", kind, o.GetNamespace(), o.GetName())] = runs
	}
	for _, namespace := range namespaces {
		var deployments appsv1.DeploymentList
		var sets appsv1.StatefulSetList
		var jobs batchv1.CronJobList
		for _, list := range []client.ObjectList{&deployments, &sets, &jobs} {
			if err := world.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
				return nil, err
			}
		}
		for i := range deployments.Items {
			add("Deployment", &deployments.Items[i], fmt.Sprintf("%d replicas", *deployments.Items[i].Spec.Replicas))
		}
		for i := range sets.Items {
			add("StatefulSet", &sets.Items[i], fmt.Sprintf("%d replicas", *sets.Items[i].Spec.Replicas))
		}
		for i := range jobs.Items {
			add("CronJob", &jobs.Items[i], fmt.Sprintf("suspended: %v", *jobs.Items[i].Spec.Suspend))
		}
	}
	return found, nil
}

// check checks all invariants after the faults have ended.
func (c *checker) check(t *testing.T, round string) {
	t.Helper()
	for _, problem := range c.awaitCalm(t.Context()) {
		t.Errorf("%v after the last disturbance: %s", calmWithin, problem)
	}
	c.checkBackups(t, round)
	c.checkDeleted(t)
	c.noteRestores(t)
	c.checkPairs(t)
	c.checkMembers(t)
}

// checkBackups checks that every Completed Backup is stored with every byte that its
// manifest lists, and restores some of them.
func (c *checker) checkBackups(t *testing.T, round string) {
	t.Helper()
	var backups v1alpha1.BackupList
	if err := world.Client.List(t.Context(), &backups, client.InNamespace(c.namespace)); err != nil {
		t.Fatal(err)
	}
	var fresh []*v1alpha1.Backup
	phases := map[v1alpha1.RunPhase]int{}
	for i := range backups.Items {
		b := &backups.Items[i]
		phases[b.Status.Phase]++
		c.note(b, string(b.Status.Phase))
		if b.Status.Phase != v1alpha1.RunPhaseCompleted {
			c.journal.note("check: Backup %s is %s: %s %s", b.Name, b.Status.Phase, b.Status.Message, b.Status.FailureReason)
			continue
		}
		if err := c.store.Verify(t.Context(), b.Name); err != nil {
			t.Errorf("Backup %s is Completed: %v", b.Name, err)
		}
		if !c.restored[b.Name] {
			fresh = append(fresh, b)
		}
	}
	c.journal.note("check: Backups: %v", phases)
	c.random.Shuffle(len(fresh), func(i, j int) { fresh[i], fresh[j] = fresh[j], fresh[i] })
	for _, b := range fresh[:min(restores, len(fresh))] {
		c.checkRestore(t, b, fmt.Sprintf("%s-check-%s", round, b.Name))
		c.restored[b.Name] = true
	}
}

// note counts how a run ended, once.
func (c *checker) note(run client.Object, phase string) {
	if !c.noted[run.GetUID()] {
		c.noted[run.GetUID()] = true
		kind := strings.TrimPrefix(fmt.Sprintf("%T", run), "*v1alpha1.")
		c.journal.ran.add(kind + "s " + phase)
	}
}

// checkRestore restores the ConfigMaps of a backup and compares them.
func (c *checker) checkRestore(t *testing.T, b *v1alpha1.Backup, name string) {
	t.Helper()
	r := newRestore(c.namespace, name, b.Name, c.apps)
	if err := world.Client.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ; r.Status.CompletionTimestamp == nil; wait(ctx, 100*time.Millisecond) {
		if err := world.Client.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
			t.Errorf("Restore %s has not ended (%v): %s %q", name, err, r.Status.Phase, r.Status.Message)
			return
		}
	}
	if r.Status.Phase != v1alpha1.RunPhaseCompleted {
		t.Errorf("Backup %s is Completed, and a Restore of it %s: %s %s", b.Name, r.Status.Phase, r.Status.Message, r.Status.FailureReason)
		return
	}
	for _, app := range b.Spec.IncludedNamespaces {
		for i := range configMaps {
			key := client.ObjectKey{Namespace: restored(string(app), name), Name: fmt.Sprintf("c%d", i)}
			var got corev1.ConfigMap
			if err := world.Client.Get(t.Context(), key, &got); err != nil || got.Data["n"] != strconv.Itoa(i) {
				t.Errorf("Restore %s is Completed: ConfigMap %s has %v (%v)", name, key, got.Data, err)
			}
		}
	}
}

// checkDeleted checks that a DeletionRun that is Completed left nothing behind.
func (c *checker) checkDeleted(t *testing.T) {
	t.Helper()
	var list v1alpha1.DeletionRunList
	if err := world.Client.List(t.Context(), &list, client.InNamespace(c.namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		d := &list.Items[i]
		c.note(d, string(d.Status.Phase))
		if d.Status.Phase != v1alpha1.RunPhaseCompleted {
			c.journal.note("check: DeletionRun %s is %s: %s %s", d.Name, d.Status.Phase, d.Status.Message, d.Status.FailureReason)
			continue
		}
		key := client.ObjectKey{Namespace: c.namespace, Name: d.Spec.BackupName}
		if err := world.Client.Get(t.Context(), key, &v1alpha1.Backup{}); !apierrors.IsNotFound(err) {
			t.Errorf("DeletionRun %s is Completed, and the Backup %s is there, or not: %v", d.Name, key.Name, err)
		}
		for entry, err := range c.objects.List(t.Context(), objectstore.ListOptions{Prefix: prefix + "/backups/" + key.Name + "/"}) {
			t.Errorf("DeletionRun %s is Completed, and %s is stored (%v)", d.Name, entry.Key, err)
		}
	}
}

// noteRestores counts how Restores ended.
func (c *checker) noteRestores(t *testing.T) {
	t.Helper()
	var list v1alpha1.RestoreList
	if err := world.Client.List(t.Context(), &list, client.InNamespace(c.namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		c.note(&list.Items[i], string(list.Items[i].Status.Phase))
	}
}

// checkPairs checks that no application was frozen after it was thawed for good.
func (c *checker) checkPairs(t *testing.T) {
	t.Helper()
	content, err := os.ReadFile(callsFile(c.namespace))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	type call struct {
		Point, Action, Key string
		Attempt            int32
	}
	last, calls := map[string]call{}, map[string][]string{}
	for scanner := bufio.NewScanner(bytes.NewReader(content)); scanner.Scan(); {
		var one call
		if err := json.Unmarshal(scanner.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		if parent := c.hookRuns.parentOf(one.Key); parent != "" {
			last[parent] = one
			calls[parent] = append(calls[parent], fmt.Sprintf("%s #%d", one.Point, one.Attempt))
		}
	}
	for _, parent := range slices.Sorted(maps.Keys(last)) {
		if point := last[parent].Point; strings.HasPrefix(point, "Pre") {
			t.Errorf("the last call of %s for %s is %s: %v", last[parent].Action, parent, point, calls[parent])
		}
	}
	c.journal.note("check: pairs were called for %d runs", len(last))
}

// use is what an operator uses.
type use struct{ goroutines, bytes float64 }

// What an operator may use more than it did before anything disturbed it.
const (
	moreGoroutines = 150
	moreBytes      = 150 << 20
)

// checkMembers checks that the operators run, and use what they did.
func (c *checker) checkMembers(t *testing.T) {
	t.Helper()
	for _, m := range c.members {
		m.mu.Lock()
		for _, end := range m.unexpected {
			if isPanic(end) {
				t.Errorf("%s: %s", m.name, end)
			}
		}
		m.unexpected = nil
		m.mu.Unlock()
		var now use
		var err error
		for deadline := time.Now().Add(time.Minute); ; wait(t.Context(), 500*time.Millisecond) {
			now, err = m.use(t.Context())
			fine := err == nil && now.goroutines <= c.use.goroutines+moreGoroutines && now.bytes <= c.use.bytes+moreBytes
			if fine {
				break
			}
			if time.Now().After(deadline) {
				t.Errorf("%s uses %+v (%v), and used %+v before", m.name, now, err, c.use)
				break
			}
		}
		c.journal.note("check: %s uses %.0f goroutines and %.0f MiB", m.name, now.goroutines, now.bytes/(1<<20))
	}
}

func isPanic(text string) bool {
	return strings.Contains(text, "panic: ") || strings.Contains(text, "fatal error: ") || strings.Contains(text, "Observed a panic")
}

// use asks the operator what it uses.
func (m *member) use(ctx context.Context) (use, error) {
	op := m.running()
	if op == nil {
		return use{}, errors.New("it does not run")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, op.MetricsURL(), http.NoBody)
	if err != nil {
		return use{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return use{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	values := map[string]float64{}
	for scanner := bufio.NewScanner(resp.Body); scanner.Scan(); {
		if name, text, ok := strings.Cut(scanner.Text(), " "); ok {
			values[name], _ = strconv.ParseFloat(text, 64)
		}
	}
	found := use{values["go_goroutines"], values["process_resident_memory_bytes"]}
	if found.goroutines == 0 || found.bytes == 0 {
		return found, errors.New("it does not measure that")
	}
	return found, nil
}
