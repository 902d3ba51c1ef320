// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

// health is how an object stands, in the words of each tool.
type health struct{ argo, flux string }

var (
	healthy     = health{"Healthy", fluxCurrent}
	progressing = health{"Progressing", fluxInProgress}
	degraded    = health{"Degraded", fluxFailed}
	suspended   = health{"Suspended", fluxCurrent} // Flux has no such word
)

// sample is an object as a controller leaves it.
type sample struct {
	object conditions.Object
	want   health
	// says is part of what Argo CD shows.
	says string
	// actions are the names of the actions that Argo CD offers, sorted.
	actions string
}

// samples returns objects of each kind by what is so about them.
func samples() map[string]map[string]sample {
	return map[string]map[string]sample{
		"Backup":                backups(),
		"Restore":               restores(),
		"DeletionRun":           deletionRuns(),
		"HookRun":               hookRuns(),
		"AsyncOperation":        operations(),
		"Schedule":              schedules(),
		"DownloadRequest":       downloadRequests(),
		"BackupPreview":         backupPreviews(),
		"Plugin":                plugins(),
		"BackupStorageLocation": locations(),
	}
}

var meta = metav1.ObjectMeta{Name: "one", Generation: 3}

// write is what a controller does to a run, with the functions that it does it with.
type write[T lifecycle.Object] func(s *lifecycle.Scope[T])

func waiting[T lifecycle.Object](s *lifecycle.Scope[T]) {
	s.MarkWaiting(v1alpha1.ReasonQueued, "Waiting for a slot")
}

// working is a run in one of the phases between its beginning and its outcome.
func working[T lifecycle.Object](phase v1alpha1.RunPhase) write[T] {
	return func(s *lifecycle.Scope[T]) {
		s.MarkRunning(v1alpha1.ReasonRunning, "Working on it")
		s.Object.SetPhase(phase)
	}
}

func decided[T lifecycle.Object](phase v1alpha1.RunPhase, message string) write[T] {
	return func(s *lifecycle.Scope[T]) {
		s.MarkRunning(v1alpha1.ReasonRunning, "Working on it")
		s.RecordOutcome(lifecycle.Outcome{Phase: phase, Reason: string(phase), Message: message}, time.Unix(1, 0))
	}
}

func ended[T lifecycle.Object](phase v1alpha1.RunPhase, message string) write[T] {
	return func(s *lifecycle.Scope[T]) {
		decided[T](phase, message)(s)
		s.MarkFinalized()
	}
}

func refused[T lifecycle.Object](s *lifecycle.Scope[T]) {
	s.FailValidation([]string{"there is no location main"}, time.Unix(1, 0))
	s.MarkFinalized()
}

func made[T lifecycle.Object](object T, writes ...write[T]) T {
	s := &lifecycle.Scope[T]{Object: object}
	for _, w := range writes {
		w(s)
	}
	return object
}

func backups() map[string]sample {
	type scope = lifecycle.Scope[*v1alpha1.Backup]
	backup := func(writes ...write[*v1alpha1.Backup]) *v1alpha1.Backup {
		return made(&v1alpha1.Backup{ObjectMeta: meta}, writes...)
	}
	working, decided, ended := working[*v1alpha1.Backup], decided[*v1alpha1.Backup], ended[*v1alpha1.Backup]
	postRuns := func(s *scope) { s.ReportRemainingWork("RunningPostBackupActions", "running thaw") }
	overdue := func(s *scope) { // as in internal/lifecycle/postactions.go
		conditions.Set(s.Object, v1alpha1.ConditionCleanupOwed, metav1.ConditionTrue, v1alpha1.ReasonCleanupOverdue, "thaw is overdue")
		s.ReportRemainingWork(v1alpha1.ReasonCleanupOverdue, "thaw is overdue")
		conditions.SetSummary(s.Object, conditions.StalledRetrying, v1alpha1.ReasonCleanupOverdue, "thaw is overdue")
	}
	postFailed := func(s *scope) {
		conditions.Set(s.Object, v1alpha1.ConditionPostActionsSucceeded, metav1.ConditionFalse, v1alpha1.ReasonPostActionFailed, "notify failed")
		s.MarkFinalized()
	}
	data := func(status metav1.ConditionStatus, message string) write[*v1alpha1.Backup] { // as in controllers/backupsync/status.go
		return func(s *scope) {
			conditions.Set(s.Object, v1alpha1.ConditionDataAvailable, status, "Data", message)
			if lifecycle.IsFinalized(s.Object) {
				lifecycle.SummarizeOutcome(s.Object)
			}
		}
	}
	notFound := func(s *scope) { // as in controllers/backupsync/status.go
		s.Object.Status.Message = "main has no such backup"
		conditions.SetSummary(s.Object, conditions.Stalled, v1alpha1.ReasonDataMissing, "main has no such backup")
	}
	imported := &v1alpha1.Backup{
		ObjectMeta: meta, Spec: v1alpha1.BackupSpec{ImportedFrom: &v1alpha1.ImportSource{StorageLocation: "main"}},
		Status: v1alpha1.BackupStatus{RunStatus: v1alpha1.RunStatus{ObservedGeneration: -1}},
	}
	canceled := backup(working("InProgress"))
	canceled.Spec.DesiredState = v1alpha1.DesiredStateCancel
	return map[string]sample{
		"waits":                             {object: backup(waiting), want: progressing, actions: "cancel", says: "Waiting for a slot"},
		"cannot run as written":             {object: backup(refused), want: degraded, says: "no location main"},
		"runs":                              {object: backup(working("InProgress")), want: progressing, actions: "cancel", says: "Working on it"},
		"is to be cancelled":                {object: canceled, want: progressing},
		"waits for its import":              {object: imported, want: progressing},
		"a PreBackup action failed":         {object: backup(ended("FailedPreBackupActions", "freeze failed")), want: degraded, says: "freeze failed"},
		"waits for operations":              {object: backup(working("WaitingForPluginOperations")), want: progressing, actions: "cancel"},
		"waits, one failed":                 {object: backup(working("WaitingForPluginOperationsPartiallyFailed")), want: progressing, actions: "cancel"},
		"stores what became of them":        {object: backup(working("Finalizing")), want: progressing, actions: "cancel"},
		"stores it, one failed":             {object: backup(working("FinalizingPartiallyFailed")), want: progressing, actions: "cancel"},
		"uploads":                           {object: backup(working("Uploading")), want: progressing, actions: "cancel"},
		"uploads, some failed":              {object: backup(working("UploadingPartialFailure")), want: progressing, actions: "cancel"},
		"done":                              {object: backup(ended("Completed", "12 objects")), want: healthy, says: "12 objects"},
		"done but for some":                 {object: backup(ended("PartiallyFailed", "2 errors")), want: degraded, says: "2 errors"},
		"failed":                            {object: backup(ended("Failed", "the bucket is full")), want: degraded, says: "the bucket is full"},
		"cancelled":                         {object: backup(ended("Cancelled", "Cancelled: spec.desiredState is Cancel")), want: degraded},
		"done, actions still run":           {object: backup(decided("Completed", "12 objects"), postRuns), want: progressing, actions: "cancel", says: "12 objects; running thaw"},
		"failed, actions still run":         {object: backup(decided("Failed", "the bucket is full"), postRuns), want: progressing, actions: "cancel"},
		"done, clean-up is overdue":         {object: backup(decided("Completed", "12 objects"), overdue), want: degraded, says: "thaw is overdue"},
		"done, a PostBackup one failed":     {object: backup(decided("Completed", "12 objects"), postFailed), want: healthy, says: "notify failed"},
		"done, its data is gone":            {object: backup(ended("Completed", "12 objects"), data(metav1.ConditionFalse, "not in main")), want: degraded, says: "not in main"},
		"its data was gone before its end":  {object: backup(decided("Completed", "12 objects"), data(metav1.ConditionFalse, "not in main"), ended("Completed", "12 objects")), want: degraded, says: "not in main"},
		"done, its data is back":            {object: backup(ended("Completed", "12 objects"), data(metav1.ConditionTrue, "in main again")), want: healthy, says: "12 objects"},
		"imported, and nowhere to be found": {object: backup(notFound), want: degraded, says: "no such backup"},
	}
}

func restores() map[string]sample {
	restore := func(writes ...write[*v1alpha1.Restore]) *v1alpha1.Restore {
		return made(&v1alpha1.Restore{ObjectMeta: meta}, writes...)
	}
	working, ended := working[*v1alpha1.Restore], ended[*v1alpha1.Restore]
	return map[string]sample{
		"waits":                      {object: restore(waiting), want: progressing, actions: "cancel"},
		"cannot run as written":      {object: restore(refused), want: degraded},
		"runs":                       {object: restore(working("InProgress")), want: progressing, actions: "cancel"},
		"a PreRestore action failed": {object: restore(ended("FailedPreRestoreActions", "stop failed")), want: degraded, says: "stop failed"},
		"waits for operations":       {object: restore(working("WaitingForPluginOperations")), want: progressing, actions: "cancel"},
		"waits, one failed":          {object: restore(working("WaitingForPluginOperationsPartiallyFailed")), want: progressing, actions: "cancel"},
		"stores what became of them": {object: restore(working("Finalizing")), want: progressing, actions: "cancel"},
		"stores it, one failed":      {object: restore(working("FinalizingPartiallyFailed")), want: progressing, actions: "cancel"},
		"done":                       {object: restore(ended("Completed", "12 objects")), want: healthy, says: "12 objects"},
		"done but for some":          {object: restore(ended("PartiallyFailed", "2 errors")), want: degraded, says: "2 errors"},
		"failed":                     {object: restore(ended("Failed", "the archive is damaged")), want: degraded},
		"cancelled":                  {object: restore(ended("Cancelled", "Cancelled: the Restore was deleted")), want: degraded},
	}
}

func deletionRuns() map[string]sample {
	deletion := func(writes ...write[*v1alpha1.DeletionRun]) *v1alpha1.DeletionRun {
		return made(&v1alpha1.DeletionRun{ObjectMeta: meta}, writes...)
	}
	working, ended := working[*v1alpha1.DeletionRun], ended[*v1alpha1.DeletionRun]
	return map[string]sample{
		"waits":                    {object: deletion(waiting), want: progressing},
		"cannot run as written":    {object: deletion(refused), want: degraded},
		"runs":                     {object: deletion(working("InProgress")), want: progressing},
		"done":                     {object: deletion(ended("Completed", "shop is gone")), want: healthy, says: "shop is gone"},
		"something was left":       {object: deletion(ended("PartiallyFailed", "a snapshot was left behind")), want: degraded, says: "left behind"},
		"did not end in time":      {object: deletion(ended("Failed", "it took longer than 24h")), want: degraded, says: "longer than 24h"},
		"deleted before its start": {object: deletion(ended("Cancelled", "Cancelled: the DeletionRun was deleted")), want: degraded},
	}
}

// told is an object whose phase is set already, with its conditions.
// Every controller sets Ready, Reconciling and Stalled with Summary, and for a run Succeeded
// with Set.
func told[T conditions.Object](object T, succeeded metav1.ConditionStatus, state conditions.State, message string) T {
	if succeeded != "" {
		conditions.Set(object, v1alpha1.ConditionSucceeded, succeeded, "Because", message)
	}
	conditions.SetSummary(object, state, "Because", message)
	return object
}

// hookRuns are as controllers/hookrun/decide.go leaves them.
func hookRuns() map[string]sample {
	hook := func(phase v1alpha1.HookRunPhase, succeeded metav1.ConditionStatus, state conditions.State, message string) *v1alpha1.HookRun {
		h := &v1alpha1.HookRun{ObjectMeta: meta, Status: v1alpha1.HookRunStatus{Phase: phase, Message: message}}
		return told(h, succeeded, state, message)
	}
	owed := hook("InProgress", "Unknown", conditions.InProgress, "Running attempt 1")
	owed.Spec.Owed = true
	return map[string]sample{
		"not its turn":       {object: hook("Pending", "Unknown", conditions.InProgress, "Waiting for its turn"), want: progressing, actions: "cancel"},
		"runs":               {object: hook("InProgress", "Unknown", conditions.InProgress, "Running attempt 1"), want: progressing, actions: "cancel", says: "attempt 1"},
		"runs, and is owed":  {object: owed, want: progressing},
		"done":               {object: hook("Completed", "True", conditions.Current, "Done"), want: healthy},
		"failure is ignored": {object: hook("Completed", "True", conditions.Current, "ignored: no answer"), want: healthy, says: "ignored"},
		"failed":             {object: hook("Failed", "False", conditions.Stalled, "exit status 1"), want: degraded, says: "exit status 1"},
		"cancelled":          {object: hook("Cancelled", "False", conditions.Stalled, "Canceled while running"), want: degraded},
		"not needed":         {object: hook("Skipped", "True", conditions.Current, "Not needed"), want: healthy},
	}
}

// operations are as internal/operation leaves them.
func operations() map[string]sample {
	operation := func(phase v1alpha1.AsyncOperationPhase, succeeded metav1.ConditionStatus, state conditions.State, message string) *v1alpha1.AsyncOperation {
		o := &v1alpha1.AsyncOperation{ObjectMeta: meta, Status: v1alpha1.AsyncOperationStatus{Phase: phase, Message: message}}
		return told(o, succeeded, state, message)
	}
	late := operation("Cancelling", "Unknown", conditions.InProgress, "Cancelling")
	late.Status.Cancel = &v1alpha1.AsyncOperationCancel{Cause: v1alpha1.CancelCauseTimedOut}
	return map[string]sample{
		"started":   {object: operation("New", "Unknown", conditions.InProgress, "Started"), want: progressing, actions: "cancel"},
		"running":   {object: operation("InProgress", "Unknown", conditions.InProgress, "Running: 61 %"), want: progressing, actions: "cancel", says: "61 %"},
		"is to end": {object: late, want: progressing},
		"done":      {object: operation("Completed", "True", conditions.Current, "Completed"), want: healthy},
		"failed":    {object: operation("Failed", "False", conditions.Stalled, "It took too long"), want: degraded, says: "too long"},
		"cancelled": {object: operation("Cancelled", "False", conditions.Stalled, "Cancelled"), want: degraded},
	}
}

// schedules are as controllers/schedule/status.go leaves them.
func schedules() map[string]sample {
	schedule := func(phase v1alpha1.SchedulePhase, suspend bool, state conditions.State, message string) *v1alpha1.Schedule {
		s := &v1alpha1.Schedule{
			ObjectMeta: meta, Spec: v1alpha1.ScheduleSpec{Schedule: "@daily", Suspend: suspend},
			Status: v1alpha1.ScheduleStatus{Phase: phase, Message: message, ObservedSuspend: suspend},
		}
		return told(s, "", state, message)
	}
	busy := func(policy v1alpha1.ConcurrencyPolicy) *v1alpha1.Schedule {
		s := schedule("Enabled", false, conditions.Current, "The next Backup is due at 01:30")
		s.Spec.ConcurrencyPolicy, s.Status.Active = policy, 1
		return s
	}
	return map[string]sample{
		"waits for its time":    {object: schedule("Enabled", false, conditions.Current, "The next Backup is due at 01:30"), want: healthy, says: "01:30", actions: "pause run-now"},
		"cannot create Backups": {object: schedule("Enabled", false, conditions.StalledRetrying, "a policy refuses it"), want: degraded, says: "a policy refuses it", actions: "pause run-now"},
		"suspended":             {object: schedule("Suspended", true, conditions.Current, "Suspended: no Backups are created"), want: suspended, says: "no Backups", actions: "resume run-now"},
		"its Backup runs":       {object: busy("Forbid"), want: healthy, actions: "pause"},
		"may run several":       {object: busy("Allow"), want: healthy, actions: "pause run-now"},
		"wrongly written":       {object: schedule("FailedValidation", false, conditions.Stalled, "there is no hour 25"), want: degraded, says: "hour 25", actions: "pause"},
		"suspended, and wrong":  {object: schedule("FailedValidation", true, conditions.Stalled, "there is no hour 25"), want: degraded, says: "hour 25", actions: "resume"},
	}
}

// downloadRequests are as controllers/downloadrequest leaves them.
func downloadRequests() map[string]sample {
	request := func(phase v1alpha1.DownloadRequestPhase, state conditions.State, message string) *v1alpha1.DownloadRequest {
		d := &v1alpha1.DownloadRequest{ObjectMeta: meta, Status: v1alpha1.DownloadRequestStatus{Phase: phase}}
		return told(d, "", state, message)
	}
	return map[string]sample{
		"can be downloaded": {object: request("Ready", conditions.Current, "The file can be downloaded with the token"), want: healthy, says: "can be downloaded"},
		"names nothing":     {object: request("Failed", conditions.Stalled, "Backup b does not exist"), want: degraded, says: "does not exist"},
	}
}

// backupPreviews are as controllers/backuppreview leaves them.
func backupPreviews() map[string]sample {
	preview := func(phase v1alpha1.RunPhase, state conditions.State, message string) *v1alpha1.BackupPreview {
		p := &v1alpha1.BackupPreview{ObjectMeta: meta, Status: v1alpha1.BackupPreviewStatus{Phase: phase}}
		return told(p, "", state, message)
	}
	return map[string]sample{
		"waits":                {object: preview("New", conditions.InProgress, "Waiting for another BackupPreview"), want: progressing, says: "another"},
		"says what is missing": {object: preview("PartiallyFailed", conditions.Current, "A Backup would archive 3 objects, with 1 error"), want: healthy, says: "1 error"},
		"reads the objects":    {object: preview("InProgress", conditions.InProgress, "Reading the objects"), want: progressing, says: "Reading"},
		"says what would be":   {object: preview("Completed", conditions.Current, "A Backup would archive 3 objects"), want: healthy, says: "3 objects"},
		"says what is wrong":   {object: preview("FailedValidation", conditions.Current, "The Backup would fail validation"), want: healthy, says: "would fail"},
		"does not know":        {object: preview("Failed", conditions.Stalled, "Reading the objects failed"), want: degraded, says: "failed"},
	}
}

// plugins are as controllers/plugin/status.go leaves them: one that is loaded has a message
// of its own only if there is something to be said.
func plugins() map[string]sample {
	plugin := func(suspend bool, message string, state conditions.State, ready string) *v1alpha1.Plugin {
		p := &v1alpha1.Plugin{ObjectMeta: meta, Spec: v1alpha1.PluginSpec{Suspend: suspend}, Status: v1alpha1.PluginStatus{Message: message}}
		return told(p, "", state, ready)
	}
	used := plugin(false, "Plugin b registers freeze too", conditions.Current, "The plugin runs")
	conditions.Set(used, v1alpha1.ConditionDuplicateActions, metav1.ConditionTrue, v1alpha1.ReasonDuplicateAction, "Plugin b registers freeze too")
	return map[string]sample{
		"is started":           {object: plugin(false, "", conditions.InProgress, "The plugin is being started"), want: progressing, says: "being started"},
		"loaded":               {object: plugin(false, "", conditions.Current, "The plugin runs"), want: healthy, says: "The plugin runs"},
		"not loaded":           {object: plugin(false, "no such file", conditions.StalledRetrying, "no such file"), want: degraded, says: "no such file"},
		"another has its name": {object: used, want: healthy, says: "Plugin b"},
		"suspended":            {object: plugin(true, "", conditions.Current, "The plugin runs"), want: suspended, says: "Suspended"},
		"suspended and broken": {object: plugin(true, "no such file", conditions.StalledRetrying, "no such file"), want: degraded, says: "no such file"},
	}
}

// locations are as controllers/storagelocation and controllers/backupsync leave them.
func locations() map[string]sample {
	location := func(phase v1alpha1.LocationPhase, available metav1.ConditionStatus, state conditions.State, message string) *v1alpha1.BackupStorageLocation {
		l := &v1alpha1.BackupStorageLocation{ObjectMeta: meta, Status: v1alpha1.BackupStorageLocationStatus{Phase: phase}}
		conditions.Set(l, v1alpha1.ConditionAvailable, available, "Because", message)
		return told(l, "", state, message)
	}
	synced := func(l *v1alpha1.BackupStorageLocation, status metav1.ConditionStatus, message string) *v1alpha1.BackupStorageLocation {
		conditions.Set(l, v1alpha1.ConditionSynced, status, "Because", message)
		return l
	}
	usable := func() *v1alpha1.BackupStorageLocation {
		return location("Available", "True", conditions.Current, "The location can be used")
	}
	broken := func() *v1alpha1.BackupStorageLocation {
		return location("Unavailable", "False", conditions.StalledRetrying, "there is no bucket main")
	}
	full := location("Full", "True", conditions.StalledRetrying, "The location is full: delete backups")
	conditions.Set(full, v1alpha1.ConditionWritable, metav1.ConditionFalse, v1alpha1.ReasonFull, "The location is full: delete backups")
	return map[string]sample{
		"can be used":                     {object: synced(usable(), "True", "All imported"), want: healthy, says: "can be used"},
		"not looked into yet":             {object: usable(), want: healthy},
		"holds what cannot be imported":   {object: synced(usable(), "False", "1 backup cannot be read"), want: healthy, says: "1 backup cannot be read"},
		"is full":                         {object: full, want: degraded, says: "delete backups"},
		"cannot be used":                  {object: broken(), want: degraded, says: "no bucket main"},
		"cannot be used, nor looked into": {object: synced(broken(), "False", "cannot be listed"), want: degraded, says: "no bucket main"},
	}
}
