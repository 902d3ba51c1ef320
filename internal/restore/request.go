// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"iter"

	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/restore/action"
	"github.com/grapnel-dev/grapnel/internal/restore/modifier"
	"github.com/grapnel-dev/grapnel/internal/restore/version"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// Archive is the source of a restore. *archive.Spool implements it.
type Archive interface {
	// Resources returns the resource types in the archive.
	Resources() []archive.Resource
	// Objects returns the objects of a resource in a version or, without a version, those
	// stored without one.
	Objects(resource, version string) archive.Objects
	// Read returns the JSON of an object, in buf if it has the capacity. It is called
	// concurrently.
	Read(item archive.SpooledObject, buf []byte) ([]byte, error)
}

var _ Archive = (*archive.Spool)(nil)

// ExistingPolicy defines what happens to objects that exist and differ.
type ExistingPolicy string

// The policies; see the package's documentation.
const (
	// ExistingNone does not change them.
	ExistingNone ExistingPolicy = "none"
	// ExistingUpdate patches them.
	ExistingUpdate ExistingPolicy = "update"
	// ExistingRecreate replaces them.
	ExistingRecreate ExistingPolicy = "recreate"
)

// StatusFilter selects the resources whose status is restored, by names in any form that
// the cluster resolves; "*" means all.
type StatusFilter struct {
	// IncludedResources are restored with status. Empty means all.
	IncludedResources []string
	// ExcludedResources take precedence over IncludedResources.
	ExcludedResources []string
}

// Request specifies what to restore, and how.
type Request struct {
	// Archive is read concurrently, and not closed.
	Archive Archive
	// Selection of objects, by their original namespaces. OrderedResources has no effect.
	Selection selection.Spec
	// NamespaceMapping maps the original names of namespaces to their new names.
	NamespaceMapping map[string]string
	// CapturedClaims are the claims, by their original names, whose data an operation of the backup
	// captured, with the registered name of the action that started it. Such a claim is not created
	// unless an action of the request restores its data.
	CapturedClaims map[types.NamespacedName]string
	// Policy for existing objects, ExistingNone by default.
	Policy ExistingPolicy
	// RestoreStatus selects the objects whose status is restored; none if it is nil. The
	// annotations grapnel.dev/restore-status and velero.io/restore-status of an object,
	// "true" or "false", take precedence.
	RestoreStatus *StatusFilter
	// PreserveNodePorts keeps the node ports that Kubernetes allocated.
	PreserveNodePorts bool
	// StartsQuiesced reports that workloads that were archived while they were quiesced are
	// started afterwards. Otherwise there is a warning about each.
	StartsQuiesced bool
	// RunsPodHooks adds the init containers of Velero's annotations to created pods, and reports that an
	// action runs the commands of the annotations afterwards. Otherwise there is a warning about such
	// pods.
	RunsPodHooks bool
	// TakeOver restores Schedules and storage locations unchanged. Otherwise they are
	// restored suspended and read-only, existing ones keep these settings, and there is a
	// warning about each.
	TakeOver bool
	// UseVersions chooses a version for each resource among those in the archive (the
	// feature EnableAPIGroupVersions). Otherwise the preferred ones of the backup's cluster
	// are restored.
	UseVersions bool
	// Priorities are the user's preferred versions.
	Priorities version.Priorities
	// PrioritizedResources are the resources of Priorities that the Restore itself names.
	// If they have no effect, there is a warning; others may be for other backups.
	PrioritizedResources []string
	// BackupName is a label of restored objects.
	BackupName string
	// RestoreName is a label of restored objects.
	RestoreName string
	// RestoreUID distinguishes this restore from all others, and StampKey, a secret of the
	// operator, proves what it wrote. Without both, objects of an interrupted run are not
	// recognized.
	RestoreUID string
	StampKey   []byte
	// Resumed reports that an earlier attempt may have ended at any point.
	Resumed bool
	// Actions are called after those of the engine, in this order. They are only for this
	// run. They are not called for Namespaces, nor for existing objects that will not be
	// changed.
	Actions []itemaction.RestorePluginAction
	// StorageClasses and Images are changes that apply after the built-in actions, also in a
	// dry run. Empty means none.
	StorageClasses action.StorageClassChanges
	Images         []action.ImageChange
	// Modifiers change objects after all actions, also in a dry run. Nil means none.
	Modifiers *modifier.Rules
	// OnOperationStarted records an operation as soon as one of Actions has returned it, so
	// that it is tracked. It is called concurrently, with a context that ends after 30
	// seconds and not with the run. If it fails, or is nil, the operation is canceled,
	// which is an error of its object.
	OnOperationStarted func(ctx context.Context, op itemaction.Operation) error
	// DryRun writes nothing to the cluster, and calls none of Actions.
	DryRun bool
	// Progress, if set, is called with the number of objects to restore and the number of
	// finished ones. It is called by one goroutine at a time, not for each object, and must
	// return quickly.
	Progress func(total, done int)
}

// Outcome is the outcome of one object.
type Outcome string

// The outcomes, as they are in Result.ResourceList.
const (
	Created   Outcome = "created"
	Updated   Outcome = "updated"
	Recreated Outcome = "recreated"
	Unchanged Outcome = "unchanged"
	Skipped   Outcome = "skipped"
	Failed    Outcome = "failed"
)

// Result is the result of a restore.
type Result struct {
	// Counts has the number of objects by outcome. In a dry run these are predicted.
	Counts map[Outcome]int
	// Results has the warnings and errors of single objects, kinds and
	// namespaces.
	Results results.Results
	// ResourceList yields the objects, "namespace/name(created)" and so on, sorted, by
	// "group/version/Kind" ("v1/Pod" for the core group), sorted too. Namespaces are those
	// of the cluster. Objects whose kind is rejected as a whole, see Results and
	// SkipReasons, are not included. It may be iterated several times, and allocates only
	// the yielded names.
	ResourceList iter.Seq2[string, []string]
	// SkipReasons counts the skipped objects by reason.
	SkipReasons map[string]int
	// Choices are the chosen versions, by "<resource>.<group>". Empty unless
	// Request.UseVersions is set.
	Choices map[string]version.Choice
	// Actions are the names of the restore actions that matched objects of a resource, by
	// "<resource>.<group>". In a dry run, those of the Request are included although they
	// were not called.
	Actions map[string][]string
	// ActionReports report on the actions of the Request, in order. Skipped actions are
	// missing.
	ActionReports []ActionReport
	// BackupLabels are labels that they add to the Backup.
	BackupLabels map[string]string
	// Operations are those that they started and OnOperationStarted recorded, sorted by
	// action, object and ID.
	Operations []itemaction.Operation
}

// ActionReport has the statistics of one action of a Request.
type ActionReport struct {
	// Name of the action, and of its plugin.
	Name, Plugin string
	// Calls is the number of objects for which it was called, Skipped how many of them it
	// skipped, and Failed for how many it failed.
	Calls, Skipped, Failed int
}

// Total is the number of objects.
func (r Result) Total() int {
	total := 0
	for _, n := range r.Counts {
		total += n
	}
	return total
}
