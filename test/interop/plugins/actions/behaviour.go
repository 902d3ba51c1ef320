// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package actions

import (
	"fmt"
	"os"
	"strings"

	"github.com/pkg/errors"
	"github.com/sirupsen/logrus"
	api "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The annotations of an object that say what an action is to do with it.
const (
	// AnnotationDo has one of the Do constants. Without it an object is stamped.
	AnnotationDo = "interop.example.io/do"
	// AnnotationAdd names additional items, as "group/resource/namespace/name"
	// separated by commas.
	AnnotationAdd = "interop.example.io/add"
	// AnnotationBelongsTo names the Secret that belongs with an object, for Block.
	AnnotationBelongsTo = "interop.example.io/belongs-to"
	// StampPrefix is put before the last part of the name of an action. The annotation
	// reports its input about the run.
	StampPrefix = "stamp.interop.example.io/"
)

// The values of AnnotationDo.
const (
	// DoNothing returns no object, which means an unchanged one.
	DoNothing = "nothing"
	// DoFail returns an error that knows where it was made.
	DoFail = "fail"
	// DoFailPlainly returns an error that does not.
	DoFailPlainly = "fail-plainly"
	// DoPanic and DoPanicError panic with a text and with an error.
	DoPanic      = "panic"
	DoPanicError = "panic-error"
	// DoLog writes a line of every level.
	DoLog = "log"
	// DoExit ends the process, and DoHang never returns.
	DoExit = "exit"
	DoHang = "hang"
	// DoSkip leaves an object out of a restore.
	DoSkip = "skip"
	// DoWait waits for the additional items of a restore.
	DoWait = "wait"
	// DoOperation starts an operation.
	DoOperation = "operation"
)

const (
	// ExitCode is that of DoExit.
	ExitCode = 7
	// LineBeforeHanging is what an action logs before it hangs.
	LineBeforeHanging = "waiting for nothing"
)

// applyAnnotation does what all kinds of actions have in common.
func applyAnnotation(log logrus.FieldLogger, object metav1.Object) error {
	switch object.GetAnnotations()[AnnotationDo] {
	case DoFail:
		return failure()
	case DoFailPlainly:
		return fmt.Errorf("%s is not to be touched", object.GetName())
	case DoPanic:
		panic("the plugin has a bug")
	case DoPanicError:
		panic(fmt.Errorf("the plugin has a bug in %s", object.GetName()))
	case DoLog:
		logAtEveryLevel(log.WithField("object", object.GetName()))
	case DoExit:
		os.Exit(ExitCode)
	case DoHang:
		log.Info(LineBeforeHanging)
		select {}
	}
	return nil
}

// failure has a name that tests look for in the description of the error's origin.
func failure() error {
	return errors.Wrap(errors.New("the volume is busy"), "freezing the volume")
}

func logAtEveryLevel(log logrus.FieldLogger) {
	log.Debug("a line for developers")
	log.WithField("attempt", 3).Info("a line for users")
	log.Warn("a line that warns")
	log.WithError(failure()).Error("a line about an error")
}

// objectMetadata returns the metadata of an object.
func objectMetadata(item runtime.Unstructured) (metav1.Object, error) {
	object, err := meta.Accessor(item)
	return object, errors.WithStack(err)
}

// annotateCopy returns a copy of an object with an annotation of the action's name.
func annotateCopy(item runtime.Unstructured, name, text string) (runtime.Unstructured, error) {
	changed, ok := item.DeepCopyObject().(runtime.Unstructured)
	if !ok {
		return nil, errors.Errorf("%T cannot be copied", item)
	}
	object, err := objectMetadata(changed)
	if err != nil {
		return nil, err
	}
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[StampPrefix+name[strings.LastIndex(name, "/")+1:]] = text
	object.SetAnnotations(annotations)
	return changed, nil
}

// additionalItems returns the objects that AnnotationAdd names.
func additionalItems(object metav1.Object) ([]velero.ResourceIdentifier, error) {
	text := object.GetAnnotations()[AnnotationAdd]
	if text == "" {
		return nil, nil
	}
	var items []velero.ResourceIdentifier
	for _, one := range strings.Split(text, ",") {
		parts := strings.Split(one, "/")
		if len(parts) != 4 {
			return nil, errors.Errorf("%q in annotation %s does not name an object", one, AnnotationAdd)
		}
		items = append(items, velero.ResourceIdentifier{
			GroupResource: schema.GroupResource{Group: parts[0], Resource: parts[1]}, Namespace: parts[2], Name: parts[3],
		})
	}
	return items, nil
}

// DescribeBackup returns what an action gets about a backup.
func DescribeBackup(version string, b *api.Backup) string {
	return fmt.Sprintf("%s backup=%s/%s uid=%s labels=%v location=%s phase=%s",
		version, b.Namespace, b.Name, b.UID, b.Labels, b.Spec.StorageLocation, b.Status.Phase)
}

// DescribeRestore returns what an action gets about a restore.
func DescribeRestore(version string, r *api.Restore) string {
	return fmt.Sprintf("%s restore=%s/%s uid=%s labels=%v backup=%s phase=%s",
		version, r.Namespace, r.Name, r.UID, r.Labels, r.Spec.BackupName, r.Status.Phase)
}
