// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podexec runs hook actions as commands in existing pods, for example to freeze a
// database or to flush a queue.
//
// An [Executor] stands for one action. For every call it lists the pods that match its selector
// in the namespaces that the Backup or Restore includes, and in no others, and runs its command
// in all of them ([Each]) or in one ([Any]).
//
//	podexec.go      Options, New, Execute
//	invocation.go   one call: the lists of pods, and the state of failed ones
//	pods.go         which pods, which of their containers
//	eachpod.go      every pod once, including pods that appear during the call
//	podcommand.go   commands that pods have themselves, and waiting for their containers
//	anypod.go       one pod, the next if the command could not be started
//	pendingpods.go  pods that do not run yet, but must be called
//	command.go      one command in one pod, and what its end means
//	request.go      the input of a command
//	remote.go       how commands reach the API server
//	output.go       the output of a command: the log
//	answer.go       the output of a command: the answer
//	result.go       the results of all pods as one Answer or Error
//
// # Input of a command
//
// The arguments are those of the configuration, unchanged: nothing is inserted into them, no
// shell is started, no environment is set. The data of the call is on the standard input: one
// line with one JSON object, then the end of the input.
//
//	{"version":1,"key":"0c5e…","attempt":1,"point":"PostBackup","action":"example.io/freeze",
//	 "pod":{"namespace":"shop","name":"db-0","container":"postgres"},
//	 "parameters":{"mode":"fast"},
//	 "outputs":{"example.io/other":{"replicas":"3"}},
//	 "backupName":"nightly-1","backupOutputs":{"example.io/freeze":{"db-0.lsn":"0/16B3748"}}}
//
// The first four fields, action and pod are always present; the others may be missing. Newer
// versions of Grapnel may add fields; a change of what is described here increases version.
// Whoever decides what runs in the pod can read all of it: parameters and outputs must not
// contain secrets.
//
// A command must be idempotent per key. It is repeated with the same key when it requests that,
// when an attempt failed (in all pods, including those where it succeeded), and after a restart
// of the operator, which cannot know the progress of the call.
//
// # Answer of a command
//
// Exit code 0 is success. Any other is a failure, for which the last line of the standard error
// is quoted. If the last line of the standard output that is not blank is a JSON object with no
// other fields than these (all optional, at least one present), it is the answer; otherwise the
// command has no outputs:
//
//	{"message":"frozen","outputs":{"lsn":"0/16B3748"},"retryAfterSeconds":5}
//
// The outputs are strings, within the limits of package sdk/hook; a command that exceeds them has
// failed. With Each, the limits apply to all pods together, and every key is prefixed with the
// pod's name and a dot, and also with the namespace if two of the pods have the same name.
// retryAfterSeconds above 0 means that the command is not done and has to be called again: after
// the longest time that a pod requested, and in all pods; its outputs are dropped. Any then
// chooses a pod again, in the same order.
//
// All lines go to the run's log, redacted, at most [MaxLogBytes] per pod. Further output is read
// and discarded, and the log says how much it was.
//
// # Which pods
//
// The command runs in a pod if its phase is Running and it is not being deleted. The pod need not
// be Ready: a frozen database often fails its readiness probe, and must still be thawed. Any
// tries the ready ones first, though. A container that does not run, for example because it
// crashes, is a failure of kind Unreachable, because its volumes are backed up without the
// command.
//
// With Each, a failure in a pod that is gone afterwards (deleted, being deleted, or terminated)
// does not count if there are other pods. If it was replaced by a pod of the same controller or
// with the same name, the command runs in the replacement; a replacement that does not run yet is
// a failure of kind Unreachable, so that a retry finds it. Each does not wait for a controller
// that has not created the replacement when the pods are listed for the last time, except for an
// action that undoes another ([Undo]): the effect to undo may be in a volume, and comes back with
// the next pod. Such an action also fails as Unreachable while a matching pod does not run yet.
//
// # Commands of pods
//
// With [Options].CommandFor, each pod has a command of its own: Velero's annotations are such. Such a
// command gets no input and has no answer, has a timeout of its own, may say that its failure is to be
// ignored, and may wait for its container: the call is then to be repeated. The caller remembers from
// OnOutcome in which pods a command need not run again, because commands of others are not idempotent,
// and in which it failed while others wait.
//
// # Errors
//
//	no pod, cannot be started (forbidden, container does not run,   Unreachable
//	  node cannot be reached), pods cannot be listed
//	exit code, connection lost after the start, answer that breaks  Failed
//	  the limits, program or container not in the pod
//	deadline of ctx                                                 Timeout
//	ctx canceled                                                    Interrupted
//	call that no command could read, namespaces permanently unknown Invalid
//
// If the connection is lost after the start, it is unknown whether the command succeeded. That is
// a failure and, in contrast to Unreachable, also one for a failure policy that ignores
// unreachable actions. When ctx ends, the connection is closed. Kubernetes cannot end a command:
// it may continue in the pod.
//
// Exit code 0 is not always proof: some servers and the client of Kubernetes report success if
// the node's kubelet ends the connection without a status, when it is restarted for
// example (kubernetes/kubernetes#73056). Where that matters, let the command print an
// answer and set [Options].RequireAnswer.
//
// Retries, failure policies and timeouts do NOT belong here; the callers implement them.
package podexec
