// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package job runs hook actions as Kubernetes Jobs: any image that can read environment variables
// and files can be an action.
//
// An [Executor] stands for one action. Each attempt is one Job with one pod, which is never
// restarted. The parts of a call:
//
//	options.go      the declaration in a Plugin, and what is rejected
//	template.go     the Job, environment.go its variables, files.go its files
//	attempt.go      create or find the Job, follow it, return its answer
//	secrets.go      which values of its environment must not be shown
//	polling.go      how long to wait for what, and the messages about it
//	termination.go  pure: what the current state of a Job and its pod means
//	answer.go       pure: what a termination message means
//	result.go       return the answer of a Job that finished unobserved
//	removal.go      end and remove what was created
//	logs.go         the pod's log, line by line, into the logger of ctx
//	cluster.go      every request to the API server
//
// # Input of the container
//
// These variables are always set: GRAPNEL_IDEMPOTENCY_KEY, GRAPNEL_ATTEMPT, GRAPNEL_POINT
// ("PreBackup"), GRAPNEL_ACTION, GRAPNEL_BACKUP_NAME ("" for actions of a Backup), and the paths
// of the files below: GRAPNEL_SUBJECT_FILE, GRAPNEL_OUTPUTS_FILE, GRAPNEL_BACKUP_OUTPUTS_FILE.
// TRACEPARENT is set if the operator has traces.
//
// Each parameter is a variable GRAPNEL_PARAM_<NAME>: letters are in upper case, and everything
// except ASCII letters and digits becomes "_". "max-lag.s" is GRAPNEL_PARAM_MAX_LAG_S. Two
// parameters with the same variable are an error (kind Invalid), and so is a zero byte. A value
// is passed unchanged: Kubernetes expands no $(REFERENCE) in it, and neither a command, an
// argument nor a variable of the Plugin may refer to one of Grapnel's variables.
//
// These files are below /grapnel, read-only: subject.json, the Backup or Restore; outputs.json,
// the outputs of earlier actions of the run by action; backup-outputs.json, the same for the
// backup that is restored. They are in a Secret that the Job owns, which holds 1 MiB
// ([MaxFileBytes]). A larger call is an error of kind Invalid, before anything is started.
//
// The container runs under the restricted pod security standard unless the options say
// otherwise, and without a service account token unless a service account is named.
//
// # Answer of the container
//
// Exit code 0 is success. The termination message (/dev/termination-log, of which Kubernetes
// keeps 4096 bytes) is text, the message for users. If it begins with "{", it must be exactly
// this JSON, in which every field is optional:
//
//	{"message": "3 databases", "outputs": {"lsn": "0/16B3748"}, "retryAfterSeconds": 30}
//
// With retryAfterSeconds the action is not done and is called again, as another Job, in the same
// attempt; outputs beside it are dropped. Outputs have the limits of sdk/hook.
//
// Any other exit code is a failure. The reason is the message in the JSON, or else the last line
// of the text, or the last line of the log.
//
// # Errors
//
//	namespace, right or quota is missing; the pod is rejected, not     Unreachable
//	scheduled, not started; its image cannot be pulled
//	evicted, preempted, deleted, its node lost: no answer can come     Unreachable
//	exit code, out of memory, an answer outside the contract           Failed
//	deadline of ctx or of the Job                                      Timeout
//	parameters or files do not fit, no valid image, another's Job      Invalid
//	ctx canceled                                                       Interrupted
//
// Errors that may pass (a registry, a quota) are tolerated for a minute; scheduling and
// everything else until Options.StartTimeout. If something behind the API server rejects the
// creation of a Job or its files, such as an admission webhook that does not answer, creation is
// also retried until Options.StartTimeout. If the API server is unreachable, requests are retried
// until ctx ends. Denied reads and deletes are retried for a minute (for StartTimeout if that is
// less): a role binding may be recreated, and a running Job must not be ended because of that.
//
// # Secrets
//
// Values that the container gets from Secrets are added to the redactor before the Job is
// created. They are added again when its container has started, before any of its output is
// shown: the node may have waited for a Secret. Only a Secret whose read is denied for a minute
// is not redacted, and the log says so.
//
// # Restarts
//
// If a ctx is canceled with a cause of its own (context.WithCancelCause, as in runner.Cancel),
// the run was canceled on request: Execute deletes the Job, and waits for that for [StopGrace].
// It does the same when the deadline of ctx passes. If a ctx is canceled without a cause
// (context.Cause is context.Canceled), the operator stops and the Job continues. The next
// Execute of the same key and attempt finds the Job by its labels and returns its answer as the
// answer to that call. The log of the Job is then repeated from the beginning.
//
// A Job of an earlier attempt is ended, whatever its result: that attempt has a recorded result.
// Execute waits for a Job that is being deleted before it creates another one. The name of a Job
// depends only on the key. Therefore no two attempts of one key run at the same time, not even
// those of two operators that both consider themselves the leader; the later attempt wins. If the
// key is not executed again, Stop ends what still runs, and retries if that is denied.
//
// When the deadline has passed, Execute checks once whether the Job finished before it,
// unobserved. CollectResult does the same for an operator that starts later. The time at which
// the container ended, by the clock of its node, decides.
//
// A Job that finished by itself stays until its answer is recorded and the caller calls Stop: if
// the operator is killed in between, the next one gets the same answer. Only a Job that wants to
// be called again, or that is abandoned, is removed at once: if that is not recorded, the action
// is called again sooner, or ended again. Whoever may write Jobs or pods in the namespace can
// answer for an action.
//
// # Permissions
//
// In the namespace of the Jobs: jobs get, list, watch, create, delete; pods list, watch;
// pods/log get; secrets get, create, delete; events list.
package job
