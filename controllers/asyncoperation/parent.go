// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	kuberun "github.com/grapnel-dev/grapnel/internal/kube/run"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// parent is a Backup or Restore that has operations, as it was when the first of them was
// seen. It is safe for concurrent use.
type parent struct {
	// holders is how many operations hold it; parents keeps it.
	holders int

	mu sync.Mutex
	// fresh says that the rest was read and nothing is known that would change it.
	fresh, gone bool
	subject     []byte
	parameters  map[string]v1alpha1.ParameterSet
}

// parents are those that have operations. It is safe for concurrent use; the zero one is
// ready.
type parents struct {
	mu  sync.Mutex
	all map[types.UID]*parent
}

// hold returns a parent, which is to be released.
func (p *parents) hold(uid types.UID) *parent {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = map[types.UID]*parent{}
	}
	if p.all[uid] == nil {
		p.all[uid] = &parent{}
	}
	p.all[uid].holders++
	return p.all[uid]
}

func (p *parents) release(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if held := p.all[uid]; held != nil {
		if held.holders--; held.holders == 0 {
			delete(p.all, uid)
		}
	}
}

// outdate has a parent read again.
func (p *parents) outdate(uid types.UID) {
	p.mu.Lock()
	held := p.all[uid]
	p.mu.Unlock()
	if held != nil {
		held.mu.Lock()
		defer held.mu.Unlock()
		held.fresh = false
	}
}

// seen returns what an action sees of its Backup or Restore, in the form of velero.io/v1,
// and what the user configured for the action.
func (p *parent) seen(action string) (subject []byte, parameters map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.subject, kuberun.PlainMap(p.parameters[action])
}

// orphaned says whether nobody waits for an operation any more: its Backup or Restore is
// gone, or has ended without it.
func (r *Reconciler) orphaned(ctx context.Context, k *known, op *v1alpha1.AsyncOperation) (bool, error) {
	k.parent.mu.Lock()
	defer k.parent.mu.Unlock()
	if k.parent.fresh {
		return k.parent.gone, nil
	}
	object, err := r.readParent(ctx, op)
	if err != nil {
		return false, err
	}
	if k.parent.gone = object == nil || object.Run().CompletionTimestamp != nil; k.parent.gone && k.parent.subject != nil {
		k.parent.fresh = true
		return true, nil // plugins go on seeing it as it was
	}
	if k.parent.subject, err = describe(op, object); err != nil {
		return false, err
	}
	if object != nil {
		_, k.parent.parameters = object.Desired()
	}
	k.parent.fresh = true
	return k.parent.gone, nil
}

// readParent returns the Backup or Restore of an operation, or nil if it is gone. Only
// the API server itself is believed that.
func (r *Reconciler) readParent(ctx context.Context, op *v1alpha1.AsyncOperation) (kuberun.Subject, error) {
	key := types.NamespacedName{Namespace: op.Namespace, Name: op.Spec.Subject.Name}
	for _, reader := range []client.Reader{r.Client, r.Reader} {
		var object kuberun.Subject = &v1alpha1.Backup{}
		if op.Spec.Subject.Kind == "Restore" {
			object = &v1alpha1.Restore{}
		}
		err := reader.Get(ctx, key, object)
		switch {
		case err == nil && string(object.GetUID()) == op.Spec.Subject.UID:
			return object, nil
		case err != nil && !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("reading %s %s: %w", op.Spec.Subject.Kind, key.Name, err)
		}
	}
	return nil, nil //nolint:nilnil // that it is gone is an answer
}

// veleroObject is a Backup or Restore in the form of velero.io/v1.
type veleroObject struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        velero.Metadata            `json:"metadata"`
	Spec            map[string]json.RawMessage `json:"spec"`
	Status          veleroStatus               `json:"status"`
}

type veleroStatus struct {
	Phase          string       `json:"phase"`
	StartTimestamp *metav1.Time `json:"startTimestamp,omitempty"`
}

// describe returns what plugins see of the Backup or Restore of an operation: if it is
// gone, little more than its name.
func describe(op *v1alpha1.AsyncOperation, object kuberun.Subject) ([]byte, error) {
	out := veleroObject{
		TypeMeta: velero.TypeOf(op.Spec.Subject.Kind),
		Metadata: velero.Metadata{Name: op.Spec.Subject.Name, Namespace: op.Namespace, UID: types.UID(op.Spec.Subject.UID)},
		Spec:     map[string]json.RawMessage{}, Status: veleroStatus{Phase: velero.PhaseInProgress},
	}
	if object != nil {
		out.Metadata.Labels, out.Metadata.Annotations = object.GetLabels(), maps.Clone(object.GetAnnotations())
		delete(out.Metadata.Annotations, corev1.LastAppliedConfigAnnotation)
		out.Metadata.CreationTimestamp = object.GetCreationTimestamp()
		out.Status.StartTimestamp = object.Run().StartTimestamp
		if start := out.Status.StartTimestamp; start != nil {
			out.Metadata.CreationTimestamp = *start // as in the calls that started the operation
		}
		var err error
		if out.Spec, err = specOf(object); err != nil {
			return nil, fmt.Errorf("describing %s %s to plugins: %w", op.Spec.Subject.Kind, op.Spec.Subject.Name, err)
		}
	}
	data, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("describing %s %s to plugins: %w", op.Spec.Subject.Kind, op.Spec.Subject.Name, err)
	}
	return data, nil
}

// specOf returns the fields of a spec that Velero has, too, with the values that the
// operator chose.
func specOf(object kuberun.Subject) (map[string]json.RawMessage, error) {
	var spec any
	var fields []string
	chosen := map[string]string{}
	switch object := object.(type) {
	case *v1alpha1.Backup:
		spec, fields = object.Spec, velero.BackupFields()
		chosen["storageLocation"] = object.Status.StorageLocation
	case *v1alpha1.Restore:
		spec, fields = object.Spec, velero.RestoreFields()
		chosen["backupName"] = object.Status.BackupName
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	picked, err := velero.Pick(data, fields)
	if err != nil {
		return nil, err
	}
	for name, value := range chosen {
		if picked[name], err = json.Marshal(value); err != nil {
			return nil, err
		}
	}
	return picked, nil
}
