// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podexec runs hook actions as commands in pods that are there already: to
// freeze a database, to flush a queue.
//
// An [Executor] stands for one action. For every call it lists the pods that its
// selector finds in the namespaces that the Backup or Restore includes, and in no
// others, and runs its command in all of them ([Each]) or in one ([Any]).
//
//	podexec.go   Options, New, Execute
//	run.go       one call: the lists of pods, and what became of those that failed
//	pods.go      which pods, which of their containers
//	each.go      every pod once, also those that appear meanwhile
//	any.go       one pod, the next if the command could not be started
//	await.go     pods that do not run yet, and have to be called nevertheless
//	exec.go      one command in one pod, and what its end means
//	request.go   what a command reads
//	remote.go    how commands reach the API server
//	output.go    what a command prints: the log
//	answer.go    what a command prints: the answer
//	result.go    the results of all pods as one Answer or Error
//
// # What a command gets
//
// The arguments are those of the configuration, unchanged: nothing is put into them,
// no shell is started, no environment is set. What belongs to the call is data on the
// standard input: one line with one JSON object, then the end of the input.
//
//	{"version":1,"key":"0c5e…","attempt":1,"point":"PostBackup","action":"example.io/freeze",
//	 "pod":{"namespace":"shop","name":"db-0","container":"postgres"},
//	 "parameters":{"mode":"fast"},
//	 "outputs":{"example.io/other":{"replicas":"3"}},
//	 "backupName":"nightly-1","backupOutputs":{"example.io/freeze":{"db-0.lsn":"0/16B3748"}}}
//
// The first four fields, action and pod are always there; the others may be missing.
// Newer versions of Grapnel may add fields; one that changes what is described here
// raises version. Whoever decides what runs in the pod can read all of it: no secrets
// belong into parameters and outputs.
//
// A command must be idempotent per key. It is repeated with the same key when
// it asked for it, when an attempt failed (in all pods, also where it went well), and
// after a restart of the operator, which cannot know how far the call had come.
//
// # What a command answers
//
// Exit code 0 is success, any other is a failure, for which the last line on the
// standard error is quoted. If the last line of the standard output that is not
// blank is a JSON object with no other fields than these (all optional, at least one
// there), it is the answer; otherwise the command has no outputs:
//
//	{"message":"frozen","outputs":{"lsn":"0/16B3748"},"retryAfterSeconds":5}
//
// The outputs are strings, within the limits of package sdk/hook; a command that exceeds them has failed. With Each, the limits hold
// for all pods together and every key gets the pod's name and a dot in front, also the
// namespace's if two of the pods have the same name. retryAfterSeconds above 0
// means that the command is not done and wants to be called again: with the longest
// time that a pod asked for, and in all pods; its outputs are dropped. Any chooses the
// pod anew then, in the same order.
//
// All lines go to the run's log, redacted, at most [MaxLogBytes] per pod. What is
// printed beyond that is read and thrown away, and the log says how much it was.
//
// # Which pods
//
// A pod is called if its phase is Running and it is not being deleted. It need not be
// Ready: a frozen database often fails its readiness probe, and must be thawed
// nevertheless. Any tries the ready ones first, though. A container that does not run,
// because it crashes for instance, is a failure of kind Unreachable, because its
// volumes are backed up without the command.
//
// A failure in a pod that is gone afterwards (deleted, being deleted, or ended) does not
// count with Each, if there are others. If it was replaced by a pod of the
// same controller or with the same name, the replacement is treated; one that does
// not run yet is a failure of kind Unreachable, so that a retry finds it. A
// controller that has not made the replacement when the pods are listed for the
// last time is not waited for, except by an action that undoes another ([Undo]): what is
// to be undone may be in a volume, and comes back with the next pod. Such an action also
// fails as Unreachable as long as a pod that it finds does not run yet.
//
// # What the errors mean
//
//	no pod, cannot be started (forbidden, container does not run,   Unreachable
//	  node cannot be reached), pods cannot be listed
//	exit code, connection lost after the start, answer that breaks  Failed
//	  the limits, program or container not in the pod
//	deadline of ctx                                                 Timeout
//	ctx cancelled                                                   Interrupted
//	call that no command could read, namespaces unknown for good    Invalid
//
// If the connection is lost after the start, nobody knows whether the command ended
// well; it is a failure, in contrast to Unreachable also for a failure policy that
// ignores what cannot be reached. When ctx ends, the connection is closed. Kubernetes
// cannot end a command: it may go on in the pod.
//
// Exit code 0 is not always proof: some servers and the client of Kubernetes report success if
// the node's kubelet ends the connection without a status, when it is restarted for
// example (kubernetes/kubernetes#73056). Where that matters, let the command print an
// answer and set [Options].RequireAnswer.
//
// It is NOT the place for retries, failure policies and timeouts; those belong to the
// callers.
package podexec
