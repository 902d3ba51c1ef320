// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package job runs hook actions as Kubernetes Jobs: any image that can read
// environment variables and files can be an action.
//
// An [Executor] stands for one action. Each attempt is one Job with one pod, which is
// never started a second time. How a call goes:
//
//	options.go      what a Plugin declares, and what is refused of it
//	template.go     the Job, environment.go its variables, files.go its files
//	attempt.go      start or find the Job, follow it, take its answer
//	learn.go        what of its environment must not be shown
//	wait.go         for how long what is waited for, and what is said of it
//	judge.go        pure: what a Job and its pod, as they are now, mean
//	answer.go       pure: what a termination message means
//	late.go         take the answer of what ended unseen
//	remove.go       end and remove what was started
//	logs.go         the pod's log, line by line, into the logger of ctx
//	cluster.go      every request to the API server
//
// # What the container is told
//
// These variables, always: GRAPNEL_IDEMPOTENCY_KEY, GRAPNEL_ATTEMPT, GRAPNEL_POINT
// ("PreBackup"), GRAPNEL_ACTION, GRAPNEL_BACKUP_NAME ("" for actions of a Backup), and
// the paths of the files below: GRAPNEL_SUBJECT_FILE, GRAPNEL_OUTPUTS_FILE,
// GRAPNEL_BACKUP_OUTPUTS_FILE.
//
// Each parameter is a variable GRAPNEL_PARAM_<NAME>: letters in upper case, everything
// but letters and digits of ASCII as "_". "max-lag.s" is GRAPNEL_PARAM_MAX_LAG_S. Two
// parameters with one name are an error (kind Invalid), and so is a zero byte. A value
// arrives as it is: Kubernetes finds no $(REFERENCE) in it, and neither a command, an
// argument nor a variable of the Plugin may refer to one of Grapnel's.
//
// These files, read-only, below /grapnel: subject.json, the Backup or Restore;
// outputs.json, by action what earlier actions of the run returned;
// backup-outputs.json, the same of the backup that is restored. They are a Secret that
// the Job owns, which takes 1 MiB ([MaxFileBytes]). A call with more is an error of
// kind Invalid, before anything is started.
//
// The container runs under the restricted pod security standard unless the options say
// otherwise, and without a token of a service account unless one is named.
//
// # What it answers
//
// Exit code 0 is success. The termination message (/dev/termination-log, of which
// Kubernetes keeps 4096 bytes) is either text, the message for people, or, if it
// begins with "{", exactly this, where everything may be left out:
//
//	{"message": "3 databases", "outputs": {"lsn": "0/16B3748"}, "retryAfterSeconds": 30}
//
// With retryAfterSeconds the action is not done and called again, as another Job, in
// the same attempt; outputs beside it are dropped. Outputs have the limits of sdk/hook.
//
// Another exit code is failure. The message of the JSON says why, or else the last
// line of the text, or the last line of the log.
//
// # Errors
//
//	namespace, right or quota is missing; the pod is refused, not      Unreachable
//	scheduled, not started; its image cannot be pulled
//	evicted, preempted, deleted, its node lost: no answer can come     Unreachable
//	exit code, out of memory, an answer outside of the contract        Failed
//	deadline of ctx or of the Job                                      Timeout
//	parameters or files do not fit, no valid image, another's Job      Invalid
//	ctx cancelled                                                      Interrupted
//
// What may pass (a registry, a quota) is waited for, for a minute; for a place on a
// node and for everything else until Options.StartTimeout. So long it is tried, too, to
// create a Job or its files that something behind the API server refuses, an admission
// webhook that does not answer. If the API server is away, it is tried again until ctx ends.
// That it refuses to say what there is, or to delete it, is put up with for a minute
// (for StartTimeout if that is less): a role binding may be made anew, and what runs is not
// to be ended for that.
//
// # Secrets
//
// Values that the container gets from Secrets are made known to the redactor before the Job
// is created, and again when its container has started, before anything that it says is
// shown: the node may have waited for a Secret. Only what must not be read, for a minute, is
// not hidden, and the log says so.
//
// # Restarts
//
// A ctx that is cancelled with a cause of its own (context.WithCancelCause, as
// runner.Cancel does it) was cancelled by somebody: the Job is deleted, and waited for,
// for [StopGrace]. So it is when the deadline of ctx passes. A ctx that is cancelled without a
// cause (context.Cause is context.Canceled) ends with the operator: the Job goes on,
// and whoever executes the same key and attempt next finds it by its labels and takes its
// answer as the answer to that call. Its log is then repeated from the beginning. A Job that
// an attempt before this one left is ended, whatever it came to: that attempt has its
// result. A Job that is being deleted is waited for before another one is started, and its
// name is of the key alone, so that no two attempts of one key run at a time, not even those
// of two operators that both believe to be the leader; the later attempt wins. If nobody will
// execute the key again, Stop ends what goes on, and tries again if it may not. When the deadline has passed, it is looked
// once whether the Job ended before it, unseen: Ended does so for an operator that comes
// later. The time at which its container ended, by the clock of its node, decides.
//
// A Job that ended by itself stays until its answer is recorded and the caller says so with
// Stop: if the operator is killed in between, the next one gets the same answer. Only a Job
// that wants to be called again is removed at once, as is one that is given up: if that is
// not recorded, the action is called again sooner, or ended again. Whoever may write Jobs or
// pods in the namespace can answer for an action.
//
// # Rights
//
// In the namespace of the Jobs: jobs get, list, watch, create, delete; pods list,
// watch; pods/log get; secrets get, create, delete; events list.
package job
