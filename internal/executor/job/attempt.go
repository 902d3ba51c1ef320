// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/sdk/hook"
)

// attempt is one call of Execute. All of it but the log's follower belongs to one
// goroutine.
type attempt struct {
	Options
	cluster cluster
	call    executor.Call
	log     logr.Logger
	env     []corev1.EnvVar
	data    map[string][]byte

	// began is when the container could begin to start: its Job and files were there.
	began time.Time
	// tried says that there may be a Job, taken that it was there before this call, and learned
	// that the redactor knows what its container was given.
	tried, taken, learned bool

	job  *batchv1.Job
	logs *follower

	// seen is what the Job and pod, its pod, meant last, and stuck since when the container
	// cannot start.
	seen  verdict
	pod   *corev1.Pod
	stuck time.Time
	// unread is why the API server could not be asked, if it was so last.
	unread error
	// denied is why nothing could be removed, if it was so last.
	denied error
}

// Execute makes one attempt; see executor.Executor.
func (e *Executor) Execute(ctx context.Context, call executor.Call) (executor.Answer, error) {
	a := e.attempt(ctx, call)
	if err := a.prepare(); err != nil {
		return executor.Answer{}, a.error(&failure{kind: executor.Invalid, text: err.Error(), err: err})
	}
	answer, failed := a.run(ctx)
	if failed != nil {
		return executor.Answer{}, a.error(failed)
	}
	return answer, nil
}

func (e *Executor) attempt(ctx context.Context, call executor.Call) *attempt {
	return &attempt{
		Options: e.options, cluster: e.cluster, call: call, log: logr.FromContextOrDiscard(ctx),
	}
}

func (a *attempt) error(f *failure) error {
	text := a.Redactor.String(f.text)
	if !f.names {
		text = a.nameless(text)
	}
	return executor.NewError(f.kind, a.call, text, f.err)
}

// prepare refuses a call that no Job can be made of.
func (a *attempt) prepare() (err error) {
	switch {
	case a.call.Key == "":
		return errors.New("the call has no idempotency key")
	case a.call.Attempt < 1:
		return fmt.Errorf("the call has attempt number %d, attempts are counted from 1", a.call.Attempt)
	}
	if err := hook.ValidateParameters(a.call.Parameters); err != nil {
		return fmt.Errorf("the parameters are not allowed: %w", err)
	}
	if a.env, err = a.environment(a.call); err != nil {
		return err
	}
	a.data, err = files(a.call)
	return err
}

// run starts or finds the Job and follows it to its end. It removes the Job unless that ended by
// itself with what the attempt came to: until somebody recorded that, it has to be found again.
func (a *attempt) run(ctx context.Context) (executor.Answer, *failure) {
	changed, stop := a.cluster.changes(ctx, keyLabel(a.call.Key))
	defer stop()
	err := a.until(ctx, changed, a.start)
	if err == nil {
		err = a.until(ctx, changed, a.store)
	}
	if err == nil {
		err = a.until(ctx, changed, a.look)
	}
	last := a.logs.finish(ctx)
	if err != nil && ctx.Err() != nil {
		if !a.unseen(ctx) {
			return executor.Answer{}, a.leave(ctx)
		}
		err = nil
	}
	var (
		answer executor.Answer
		failed *failure
	)
	if err == nil {
		answer, failed = a.result(last)
	} else {
		failed = refused(err)
	}
	// If the operator ends at this moment, nobody will record that it is to be called again
	// either. Where the answer gets lost otherwise, it is only called sooner.
	final := err == nil && a.seen.over && (failed != nil || answer.Again == 0)
	if !final && !operatorEnds(ctx) {
		a.dispose(ctx, err != nil || a.seen.exit == nil)
	}
	return answer, failed
}

// result is what a Job came to that has ended. Last is the last line of its log.
func (a *attempt) result(last string) (executor.Answer, *failure) {
	if a.seen.lost != nil {
		return executor.Answer{}, a.seen.lost
	}
	return answer(a.seen.exit, last, a.Redactor.String)
}

// start finds the Job of the attempt, which an operator before this one left, or creates one
// when no other of the key is left.
func (a *attempt) start(ctx context.Context) (again time.Duration, done bool, err error) {
	a.tried = true // an operator before this one may have created it
	jobs, err := a.cluster.jobs(ctx, keyLabel(a.call.Key))
	if err != nil {
		return 0, false, doing("the Jobs of earlier attempts could not be looked for", err)
	}
	ending := false
	for i := range jobs {
		if !a.ours(&jobs[i], a.call) {
			continue
		}
		own, err := a.claim(ctx, &jobs[i])
		if err != nil {
			return 0, false, err
		}
		ending = ending || !own
	}
	if ending {
		return 0, false, nil
	}
	if a.job != nil {
		a.adopted()
		return 0, true, nil
	}
	return a.create(ctx)
}

// claim takes a Job of the key if it is that of the attempt, and otherwise has it end: what
// an attempt before this one came to is known, and nothing may run beside this one. A later
// attempt says that this one is not wanted any more.
func (a *attempt) claim(ctx context.Context, job *batchv1.Job) (own bool, err error) {
	number := attemptOf(job)
	switch {
	case number > a.call.Attempt:
		return false, &failure{kind: executor.Unreachable, text: "a later attempt has begun already"}
	case number == a.call.Attempt && job.DeletionTimestamp == nil:
		a.job = job
		return true, nil
	}
	a.watchEnd(ctx, job)
	a.seen = verdict{waiting: because("the Job of an attempt before it has not ended yet", lostNode(a.pod))}
	if job.DeletionTimestamp != nil {
		return false, nil
	}
	a.log.Info("Ending the Job that an attempt before this one left", "namespace", a.Namespace, "job", job.Name)
	return false, a.removeJob(ctx, job, true)
}

func (a *attempt) adopted() {
	a.taken = true
	a.log.Info("Following a Job that is there already; its log is repeated from the beginning",
		"namespace", a.Namespace, "job", a.job.Name)
}

// create creates the Job, unless one is there that was not listed.
func (a *attempt) create(ctx context.Context) (again time.Duration, done bool, err error) {
	if err := a.learn(ctx, a.env, a.mayRead); err != nil {
		return 0, false, creating("the Secrets of its variables could not be read", err)
	}
	job := a.Options.job(ctx, a.call, a.env)
	err = a.cluster.create(ctx, job)
	if err == nil {
		a.job = job
		a.log.Info("Started a Job", "namespace", a.Namespace, "job", job.Name)
		return 0, true, nil
	}
	if !exists(err) {
		return 0, false, creating("its Job could not be created", err)
	}
	there, err := a.cluster.job(ctx, job.Name)
	switch {
	case err != nil:
		return 0, false, doing("its Job could not be read", err)
	case there == nil:
		return executor.MinAgain, false, nil
	case !a.ours(there, a.call):
		return 0, false, &failure{kind: executor.Invalid, names: true, text: fmt.Sprintf(
			"Job %s in namespace %s is there and was not made for this action: remove it", job.Name, a.Namespace)}
	}
	if own, err := a.claim(ctx, there); !own {
		return 0, false, err
	}
	a.adopted()
	return 0, true, nil
}

// store creates the files of the Job, unless an operator before this one did. A Job that was
// there is not ended because they cannot be created if it does not need them any more.
func (a *attempt) store(ctx context.Context) (again time.Duration, done bool, err error) {
	again, done, err = a.storeFiles(ctx)
	if err == nil || !a.taken {
		return again, done, err
	}
	pod, unread := a.cluster.podOf(ctx, a.job, keyLabel(a.call.Key))
	if unread != nil {
		return 0, false, doing("its Job could not be looked at", unread)
	}
	if seen := judge(a.job, pod); seen.started || seen.ended() {
		return 0, true, nil
	}
	return 0, false, err
}

const notStored = "the files for its pod could not be stored"

// storeFiles is store without regard for what runs. What the API server says to a request to
// create them does not say whether they are there: a quota or a policy refuses it first.
func (a *attempt) storeFiles(ctx context.Context) (again time.Duration, done bool, err error) {
	secret := a.secret(a.job, a.call, a.data)
	if a.taken {
		if done, err := a.stored(ctx, secret.Name); done || err != nil {
			return 0, done, err
		}
	}
	refusal := a.cluster.create(ctx, secret)
	if refusal == nil {
		return 0, true, nil
	}
	if done, err := a.stored(ctx, secret.Name); done || err != nil {
		return 0, done, err
	}
	if exists(refusal) {
		return executor.MinAgain, false, nil
	}
	return 0, false, creating(notStored, refusal)
}

// stored says whether the files are there.
func (a *attempt) stored(ctx context.Context, name string) (bool, error) {
	there, err := a.cluster.secret(ctx, name)
	switch {
	case err != nil:
		return false, doing(notStored, err)
	case there == nil:
		return false, nil
	case !a.ours(there, a.call):
		return false, &failure{kind: executor.Invalid, names: true, text: fmt.Sprintf(
			"Secret %s in namespace %s is there and was not made for this action: remove it", name, a.Namespace)}
	}
	return true, nil
}

// look sees how the Job is.
func (a *attempt) look(ctx context.Context) (again time.Duration, done bool, err error) {
	const what = "its Job could not be looked at"
	job, err := a.cluster.job(ctx, a.job.Name)
	if err != nil {
		return 0, false, doing(what, err)
	}
	if job != nil && job.UID != a.job.UID {
		job = nil
	}
	// After the Job, so that the pod of a Job that is complete is there if it ever is.
	a.pod, err = a.cluster.podOf(ctx, a.job, keyLabel(a.call.Key))
	if err != nil {
		return 0, false, doing(what, err)
	}
	a.seen = judge(job, a.pod)
	if a.seen.started && a.logs == nil {
		if err := a.learnAgain(ctx); err != nil {
			return 0, false, err
		}
		a.follow(ctx, a.pod.Name)
	}
	if a.seen.ended() {
		return 0, true, nil
	}
	again = a.patience(ctx)
	return again, a.seen.ended(), nil
}

func (a *attempt) follow(ctx context.Context, pod string) {
	a.logs = follow(ctx, a.log.WithValues("job", a.job.Name), a.Redactor, func(ctx context.Context) (io.ReadCloser, error) {
		return a.Logs.PodLogs(ctx, a.Namespace, pod, container, true)
	})
}
