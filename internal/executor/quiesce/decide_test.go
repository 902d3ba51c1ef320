// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
)

func TestDecideQuiesce(t *testing.T) {
	t.Parallel()
	const asleep = `{"already":true,"holders":["a"],"replicas":0,"reverts":0}`
	for name, tc := range map[string]struct {
		workload quiesce.Workload
		want     want
	}{
		"running":                                  {web(), want{outcome: quiesce.Quiesced, patched: true, value: quiesce.QuiesceField, state: holds("3", "0", "a")}},
		"quiesced before":                          {web(replicas(0)), want{outcome: quiesce.AlreadyQuiesced, text: "stays so", patched: true, state: asleep}},
		"suspended before":                         {web(kind(quiesce.CronJob), suspended), want{outcome: quiesce.AlreadyQuiesced, patched: true, state: asleep}},
		"called again":                             {web(replicas(0), saved(nil, live("a"))), want{outcome: quiesce.Quiesced}},
		"called again, quiesced before":            {web(replicas(0), saved(already, live("a"))), want{outcome: quiesce.AlreadyQuiesced, text: "stays so"}},
		"reverted to another number":               {web(replicas(5), written("operator"), saved(nil, live("a"))), want{outcome: quiesce.Quiesced, text: `to 5 replicas by "operator"`, patched: true, value: quiesce.QuiesceField, state: holds("5", "1", "a")}},
		"unsuspended again":                        {web(kind(quiesce.CronJob), replicas(0), saved(func(s *quiesce.State) { s.Replicas = 0 }, live("a"))), want{outcome: quiesce.Quiesced, patched: true, value: quiesce.QuiesceField, state: holds("0", "1", "a")}},
		"reverted too often":                       {web(written("kubectl", "shop-operator"), saved(reverted(3), live("a"))), want{outcome: quiesce.Reverted, text: `set to 3 replicas 4 times while it should be quiesced, last by "shop-operator"`}},
		"reverted by an unknown writer":            {web(saved(reverted(3), live("a"))), want{outcome: quiesce.Reverted, text: "last by an unknown writer"}},
		"another holds it":                         {web(replicas(0), saved(nil, live("b"))), want{outcome: quiesce.Quiesced, patched: true, state: holds("3", "0", "b", "a")}},
		"another holds it, reverted":               {web(saved(nil, live("b"))), want{outcome: quiesce.Quiesced, patched: true, value: quiesce.QuiesceField, state: holds("3", "1", "b", "a")}},
		"another should unquiesce it":              {web(replicas(0), saved(nil, over("b"))), want{outcome: quiesce.Quiesced, patched: true, state: holds("3", "0", "b", "a")}},
		"another left its state behind":            {web(replicas(5), saved(nil, over("b"))), want{outcome: quiesce.Quiesced, patched: true, value: quiesce.QuiesceField, state: holds("5", "0", "b", "a")}},
		"its time is over":                         {web(replicas(0), saved(nil, over("a"), live("b"))), want{outcome: quiesce.Expired, text: "as long as this run allows"}},
		"quiesced before, then started":            {web(replicas(2), saved(already, live("b"))), want{outcome: quiesce.Quiesced, patched: true, value: quiesce.QuiesceField, state: holds("2", "1", "b", "a")}},
		"restored and quiesced":                    {web(replicas(0), saved(elsewhere, live("b"))), want{outcome: quiesce.QuiescedByRestore, text: "stays so"}},
		"restored and started by hand":             {web(replicas(2), saved(elsewhere, live("b"))), want{outcome: quiesce.Quiesced, patched: true, value: quiesce.QuiesceField, state: holds("2", "0", "a")}},
		"a stale state, brought by rollout undo":   {web(replicas(5), savedBy("kubectl-rollout"), saved(nil, live("b"))), want{outcome: quiesce.Quiesced, patched: true, value: quiesce.QuiesceField, state: holds("5", "0", "a")}},
		"a stale state, brought by a restore":      {web(replicas(0), savedBy("grapnel-restore"), saved(nil, live("b"))), want{outcome: quiesce.QuiescedByRestore, text: "stays so"}},
		"its own state, edited by a person":        {web(replicas(0), savedBy("kubectl-edit"), saved(nil, live("a"))), want{outcome: quiesce.Quiesced}},
		"a state that too many have written":       {web(replicas(0), savedBy("ancient-changes"), saved(nil, live("b"))), want{outcome: quiesce.Quiesced, patched: true, state: holds("3", "0", "b", "a")}},
		"a state that we and others have applied":  {web(replicas(0), savedBy("kubectl", quiesce.FieldOwner), saved(nil, live("b"))), want{outcome: quiesce.Quiesced, patched: true, state: holds("3", "0", "b", "a")}},
		"its hold expired, and it was unquiesced":  {web(saved(ended, over("a"))), want{outcome: quiesce.Expired, text: "as long as this run allows"}},
		"the time of another was over":             {web(replicas(4), saved(ended, over("b"))), want{outcome: quiesce.Quiesced, patched: true, value: quiesce.QuiesceField, state: holds("4", "0", "b", "a")}},
		"the time of another was over, asleep now": {web(replicas(0), saved(ended, over("b"))), want{outcome: quiesce.AlreadyQuiesced, text: "stays so", patched: true, state: `{"already":true,"holders":["b","a"],"replicas":0,"reverts":0}`}},
		"ended elsewhere, asleep here":             {web(replicas(0), saved(func(s *quiesce.State) { elsewhere(s); ended(s) }, over("b"))), want{outcome: quiesce.AlreadyQuiesced, text: "stays so", patched: true, state: asleep}},
		"state of its Deployment":                  {web(kind(quiesce.ReplicaSet), saved(func(s *quiesce.State) { s.Kind = quiesce.Deployment }, live("b"))), want{outcome: quiesce.Quiesced, patched: true, value: quiesce.QuiesceField, state: holds("3", "0", "a")}},
		"invalid JSON":                             {web(replicas(0), annotated("{")), want{outcome: quiesce.Unreadable, text: "not valid JSON"}},
		"invalid JSON, running":                    {web(annotated("{")), want{outcome: quiesce.Quiesced, patched: true, value: quiesce.QuiesceField, state: holds("3", "0", "a")}},
		"of a newer release":                       {web(replicas(0), saved(func(s *quiesce.State) { s.Version = 2 }, live("b"))), want{outcome: quiesce.Unreadable, text: "version 2"}},
		"says there was nothing":                   {web(replicas(0), saved(func(s *quiesce.State) { s.Replicas = 0 }, live("b"))), want{outcome: quiesce.Unreadable, text: "0 replicas"}},
		"stopped without a state":                  {web(kind(quiesce.DaemonSet), replicas(0), parked), want{outcome: quiesce.Quiesced, patched: true, value: quiesce.QuiesceField, state: holds("0", "0", "a")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, quiesce.DecideQuiesce(tc.workload, live("a"), now), tc.want)
		})
	}
}

func TestDecideRelease(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		workload quiesce.Workload
		want     want
	}{
		"the only holder":             {web(replicas(0), saved(nil, live("a"))), want{outcome: quiesce.Restored, patched: true, value: quiesce.RestoreField, replicas: 3}},
		"the last holder that counts": {web(replicas(0), saved(nil, live("a"), over("b"))), want{outcome: quiesce.Restored, patched: true, value: quiesce.RestoreField, replicas: 3, state: holds("3", "0", "b")}},
		"others are long over":        {web(replicas(0), saved(nil, live("a"), long("b"))), want{outcome: quiesce.Restored, patched: true, value: quiesce.RestoreField, replicas: 3}},
		"its own time is over":        {web(replicas(0), saved(nil, over("a"))), want{outcome: quiesce.Restored, patched: true, value: quiesce.RestoreField, replicas: 3}},
		"others hold it":              {web(replicas(0), saved(nil, live("b"), live("a"), over("c"))), want{outcome: quiesce.StillHeld, text: "1 more", patched: true, state: holds("3", "0", "b", "c")}},
		"not a holder":                {web(replicas(0), saved(nil, live("b"))), want{outcome: quiesce.NotHeld}},
		"no state":                    {web(replicas(0)), want{outcome: quiesce.NotHeld}},
		"slept before":                {web(replicas(0), saved(already, live("a"))), want{outcome: quiesce.AlreadyQuiesced, text: "stays so", patched: true}},
		"changed since":               {web(replicas(1), written("kubectl"), saved(nil, live("a"))), want{outcome: quiesce.ChangedSince, text: `set to 1 replicas in the meantime, by "kubectl"`, patched: true}},
		"set to 0 by a person":        {web(replicas(0), written("kubectl"), saved(nil, live("a"))), want{outcome: quiesce.ChangedSince, text: `set to 0 replicas in the meantime, by "kubectl"`, patched: true}},
		"set to 0 by kubectl scale":   {web(replicas(0), savedBy(quiesce.FieldOwner), saved(nil, live("a"))), want{outcome: quiesce.ChangedSince, text: "set to 0 replicas in the meantime, by an unknown writer", patched: true}},
		"set by an unknown writer":    {web(replicas(0), savedBy("ancient-changes"), saved(nil, live("a"))), want{outcome: quiesce.Restored, patched: true, value: quiesce.RestoreField, replicas: 3}},
		"set to 0 by us and others":   {web(replicas(0), written("kubectl", quiesce.FieldOwner), saved(nil, live("a"))), want{outcome: quiesce.Restored, patched: true, value: quiesce.RestoreField, replicas: 3}},
		"too many have written it":    {web(replicas(0), written("ancient-changes"), saved(nil, live("a"))), want{outcome: quiesce.Restored, patched: true, value: quiesce.RestoreField, replicas: 3}},
		"restored from elsewhere":     {web(replicas(0), saved(elsewhere, live("a"))), want{outcome: quiesce.QuiescedByRestore, text: "in its quiesced form"}},
		"rolled back":                 {web(replicas(0), savedBy("kubectl-rollout"), saved(nil, live("b"))), want{outcome: quiesce.QuiescedByRestore, text: "in its quiesced form"}},
		"edited by a person":          {web(replicas(0), savedBy("kubectl-edit"), saved(nil, live("a"))), want{outcome: quiesce.Restored, patched: true, value: quiesce.RestoreField, replicas: 3}},
		"unquiesced by the deadline":  {web(saved(ended, over("a"))), want{outcome: quiesce.EndedBefore, text: "maxQuiesceDuration", patched: true}},
		"of two, by the deadline":     {web(saved(ended, over("a"), over("b"))), want{outcome: quiesce.EndedBefore, text: "maxQuiesceDuration", patched: true, state: holds("3", "0", "b")}},
		"of another, by the deadline": {web(saved(ended, over("b"))), want{outcome: quiesce.NotHeld}},
		"parked, others wrote beside": {web(kind(quiesce.DaemonSet), replicas(0), parked, selected("kubectl"), saved(nil, live("a"))), want{outcome: quiesce.Restored, patched: true, value: quiesce.RestoreField, replicas: 3}},
		"unreadable":                  {web(replicas(0), annotated("x")), want{outcome: quiesce.Unreadable, text: "remove it"}},
		"unreadable and running":      {web(annotated("x")), want{outcome: quiesce.NotHeld}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, quiesce.DecideRelease(tc.workload, "a", now), tc.want)
		})
	}
}

// TestHolder_Actions: two actions of one run are two holders. A holder without an action,
// written by an earlier release, matches any action.
func TestHolder_Actions(t *testing.T) {
	t.Parallel()
	by := func(action string) quiesce.Holder {
		h := live("a")
		h.Action = action
		return h
	}
	back := want{outcome: quiesce.Restored, patched: true, value: quiesce.RestoreField, replicas: 3}
	for name, tc := range map[string]struct {
		got  quiesce.Decision
		want want
	}{
		"a second one":               {quiesce.DecideQuiesce(web(replicas(0), saved(nil, by("x"))), by("y"), now), want{outcome: quiesce.Quiesced, patched: true, state: holds("3", "0", "a")}},
		"the same one":               {quiesce.DecideQuiesce(web(replicas(0), saved(nil, by("x"))), by("x"), now), want{outcome: quiesce.Quiesced}},
		"the run, of earlier":        {quiesce.DecideQuiesce(web(replicas(0), saved(nil, live("a"))), by("x"), now), want{outcome: quiesce.Quiesced}},
		"the first unquiesces":       {quiesce.DecideRelease(web(replicas(0), saved(nil, by("x"), by("y"))), "a", now, "x"), want{outcome: quiesce.StillHeld, text: "1 more", patched: true, state: holds("3", "0", "a")}},
		"the last unquiesces":        {quiesce.DecideRelease(web(replicas(0), saved(nil, by("y"))), "a", now, "y"), back},
		"one for others, too":        {quiesce.DecideRelease(web(replicas(0), saved(nil, by("x"), by("y"))), "a", now, "z", "x", "y"), back},
		"another one":                {quiesce.DecideRelease(web(replicas(0), saved(nil, by("x"))), "a", now, "y"), want{outcome: quiesce.HeldByAction, text: "until x unquiesces it"}},
		"another run":                {quiesce.DecideRelease(web(replicas(0), saved(nil, by("x"))), "b", now, "x"), want{outcome: quiesce.NotHeld}},
		"all of the run":             {quiesce.DecideRelease(web(replicas(0), saved(nil, by("x"), by("y"))), "a", now), back},
		"what the run held, earlier": {quiesce.DecideRelease(web(replicas(0), saved(nil, live("a"))), "a", now, "x"), back},
		"of a Restore, the first":    {quiesce.DecideRestored(web(replicas(0), saved(nil, by("x"), by("y"))), "a", now, "x"), want{outcome: quiesce.StillHeld, patched: true, state: holds("3", "0", "a")}},
		"of a Restore, another one":  {quiesce.DecideRestored(web(replicas(0), saved(nil, by("x"))), "a", now, "y"), want{outcome: quiesce.HeldByAction, text: "until x unquiesces it"}},
		"restored":                   {quiesce.DecideRestored(web(replicas(0), saved(elsewhere, by("x"), by("y"))), "r", now, "z"), back},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, tc.got, tc.want)
		})
	}
}

// TestDecideRelease_ExpiredFieldManagers: an expired state still records the previous field managers.
func TestDecideRelease_ExpiredFieldManagers(t *testing.T) {
	t.Parallel()
	flux := []metav1.ManagedFieldsEntry{{Manager: "kustomize-controller"}}
	ended := func(s *quiesce.State) { s.Expired, s.FieldManagers = true, flux }
	d := quiesce.DecideRelease(web(saved(ended, live("a"))), "a", now)
	if d.Outcome != quiesce.EndedBefore || d.Patch == nil || !slices.Equal(d.Patch.FieldManagers, flux) {
		t.Errorf("decided %+v with the patch %+v, want the writers %v", d, d.Patch, flux)
	}
}

func TestDecideRestored(t *testing.T) {
	t.Parallel()
	back := want{outcome: quiesce.Restored, patched: true, value: quiesce.RestoreField, replicas: 3}
	for name, tc := range map[string]struct {
		workload quiesce.Workload
		want     want
	}{
		"restored, holders count there":                         {web(replicas(0), written("grapnel-restore"), saved(elsewhere, live("b"))), back},
		"restored long after":                                   {web(replicas(0), saved(elsewhere, over("b"))), back},
		"restored, slept there":                                 {web(replicas(0), saved(func(s *quiesce.State) { elsewhere(s); already(s) }, over("b"))), want{outcome: quiesce.AlreadyQuiesced, patched: true}},
		"restored, stopped by hand":                             {web(replicas(0), savedBy("grapnel-restore"), later(written("kubectl-edit")), saved(elsewhere, over("b"))), want{outcome: quiesce.ChangedSince, text: `to 0 replicas in the meantime, by "kubectl-edit"`, patched: true}},
		"restored onto what was stopped":                        {web(replicas(0), written("kubectl-edit"), later(savedBy("grapnel-restore")), saved(elsewhere, over("b"))), back},
		"restored, others apply it, too":                        {web(replicas(0), savedBy("grapnel-restore"), later(written("grapnel-restore", "kubectl")), saved(elsewhere, over("b"))), back},
		"restored, started by hand":                             {web(replicas(1), saved(elsewhere, over("b"))), want{outcome: quiesce.ChangedSince, patched: true}},
		"restored onto the same object":                         {web(replicas(0), written("grapnel-restore"), saved(nil, over("b"))), back},
		"onto the same object, the backup held it for any time": {web(replicas(0), savedBy("grapnel-restore"), saved(nil, quiesce.NewHolder("b", now, 0))), back},
		"ended in the archive":                                  {web(replicas(0), saved(func(s *quiesce.State) { elsewhere(s); ended(s) }, over("b"))), want{outcome: quiesce.NotHeld}},
		"ended here":                                            {web(saved(ended, over("b"))), want{outcome: quiesce.NotHeld}},
		"ended here for itself":                                 {web(saved(ended, over("a"))), want{outcome: quiesce.EndedBefore, text: "maxQuiesceDuration", patched: true}},
		"held by a backup of here":                              {web(replicas(0), saved(nil, live("b"))), want{outcome: quiesce.StillHeld, text: "others of this cluster"}},
		"held by the restore itself":                            {web(replicas(0), saved(nil, live("a"))), back},
		"held by it and a backup":                               {web(replicas(0), saved(nil, live("a"), live("b"))), want{outcome: quiesce.StillHeld, patched: true, state: holds("3", "0", "b")}},
		"not quiesced":                                          {web(), want{outcome: quiesce.NotHeld}},
		"unreadable":                                            {web(replicas(0), annotated("x")), want{outcome: quiesce.Unreadable}},
		"copied to a ReplicaSet, orphan":                        {web(kind(quiesce.ReplicaSet), replicas(0), saved(func(s *quiesce.State) { s.Kind = quiesce.Deployment }, live("b"))), want{outcome: quiesce.NotHeld}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, quiesce.DecideRestored(tc.workload, "a", now), tc.want)
		})
	}
}

func TestDecideExpired(t *testing.T) {
	t.Parallel()
	longer, ever := quiesce.NewHolder("b", now, 2*time.Hour), quiesce.NewHolder("c", now.Add(-24*time.Hour), 0)
	for name, tc := range map[string]struct {
		workload quiesce.Workload
		want     want
		due      time.Time
	}{
		"one counts":                 {web(replicas(0), saved(nil, over("a"), live("b"))), want{outcome: quiesce.StillHeld}, now.Add(time.Hour)},
		"due is when the last is":    {web(replicas(0), saved(nil, longer, live("a"))), want{outcome: quiesce.StillHeld}, now.Add(2 * time.Hour)},
		"one holds it without limit": {web(replicas(0), saved(nil, longer, ever, over("a"))), want{outcome: quiesce.StillHeld}, time.Time{}},
		"one held it without limit":  {web(replicas(0), saved(nil, ever, longer)), want{outcome: quiesce.StillHeld}, time.Time{}},
		"none counts":                {web(replicas(0), saved(nil, over("a"), over("b"))), want{outcome: quiesce.Restored, patched: true, value: quiesce.RestoreField, replicas: 3, state: holds("3", "0", "a", "b")}, time.Time{}},
		"no holder":                  {web(replicas(0), saved(nil)), want{outcome: quiesce.Restored, patched: true, value: quiesce.RestoreField, replicas: 3}, time.Time{}},
		"slept before":               {web(replicas(0), saved(already, over("a"))), want{outcome: quiesce.AlreadyQuiesced, patched: true, state: `{"already":true,"holders":["a"],"replicas":0,"reverts":0}`}, time.Time{}},
		"changed since":              {web(saved(nil, over("a"))), want{outcome: quiesce.ChangedSince, patched: true, state: holds("3", "0", "a")}, time.Time{}},
		"ended before":               {web(replicas(0), saved(ended, over("a"))), want{outcome: quiesce.NotHeld}, time.Time{}},
		"brought by a restore":       {web(replicas(0), savedBy("grapnel-restore"), saved(nil, over("a"))), want{outcome: quiesce.NotHeld}, time.Time{}},
		"restored from elsewhere":    {web(replicas(0), saved(elsewhere, over("a"))), want{outcome: quiesce.NotHeld}, time.Time{}},
		"unreadable":                 {web(replicas(0), annotated("x")), want{outcome: quiesce.NotHeld}, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := quiesce.DecideExpired(tc.workload, now)
			check(t, got, tc.want)
			if got.RanWhileHeld != (tc.want.outcome == quiesce.ChangedSince) {
				t.Errorf("it ran: %v", got.RanWhileHeld)
			}
			if !got.NextExpiration.Equal(tc.due) {
				t.Errorf("due at %s, want %s", got.NextExpiration, tc.due)
			}
		})
	}
}

func TestNewHolder_Rounding(t *testing.T) {
	t.Parallel()
	h := quiesce.NewHolder("a", now.Add(400*time.Millisecond), time.Minute)
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var read quiesce.Holder
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if end := now.Add(time.Minute + 400*time.Millisecond); read.IsExpired(end) || !read.IsExpired(end.Add(time.Second)) {
		t.Errorf("%s is over at %s: %v, a second later: %v", text, end, read.IsExpired(end), read.IsExpired(end.Add(time.Second)))
	}
}
