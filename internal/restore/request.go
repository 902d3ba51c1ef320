// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"iter"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/restore/version"
	"github.com/grapnel-dev/grapnel/internal/restoreaction"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// Archive is what is restored. *archive.Spool implements it.
type Archive interface {
	// Resources returns what kinds of objects there are.
	Resources() []archive.Resource
	// Objects returns the objects of a resource in a version or, without a
	// version, those stored without one.
	Objects(resource, version string) archive.Objects
	// Read returns the JSON of an object, in buf if it has the capacity. It is
	// called from many goroutines.
	Read(item archive.SpooledObject, buf []byte) ([]byte, error)
}

var _ Archive = (*archive.Spool)(nil)

// ExistingPolicy says what happens to objects that exist and differ.
type ExistingPolicy string

// The policies; see the package's documentation.
const (
	// ExistingNone leaves them as they are.
	ExistingNone ExistingPolicy = "none"
	// ExistingUpdate patches them.
	ExistingUpdate ExistingPolicy = "update"
	// ExistingRecreate replaces them.
	ExistingRecreate ExistingPolicy = "recreate"
)

// StatusFilter says of which resources the status is restored, by names in any
// form the cluster resolves; "*" means all.
type StatusFilter struct {
	// IncludedResources are restored with status. Empty means all.
	IncludedResources []string
	// ExcludedResources win over IncludedResources.
	ExcludedResources []string
}

// Request says what to restore, and how.
type Request struct {
	// Archive is read from many goroutines, and not closed.
	Archive Archive
	// Selection of objects, by the namespaces that they had. OrderedResources
	// has no effect.
	Selection selection.Spec
	// NamespaceMapping has the new names of namespaces by their original ones.
	NamespaceMapping map[string]string
	// Policy for objects that exist, ExistingNone by default.
	Policy ExistingPolicy
	// RestoreStatus says whose status is restored, nobody's if it is nil. The
	// annotations grapnel.dev/restore-status and velero.io/restore-status of an
	// object, "true" or "false", win over it.
	RestoreStatus *StatusFilter
	// PreserveNodePorts keeps the node ports that Kubernetes chose.
	PreserveNodePorts bool
	// StartsQuiesced says that workloads which were archived while they were quiesced are started
	// afterwards. Else there is a warning about each.
	StartsQuiesced bool
	// TakeOver restores Schedules and storage locations as they were. Else they are restored
	// paused and read-only, those that exist stay as they are in that, and there is a warning
	// about each.
	TakeOver bool
	// UseVersions chooses a version for each resource among those in the
	// archive (the feature EnableAPIGroupVersions). Else the preferred ones of
	// the backup's cluster are restored.
	UseVersions bool
	// Priorities are the versions the user prefers.
	Priorities version.Priorities
	// PrioritizedResources are the resources of Priorities that the Restore itself names. Where
	// they have no effect, a warning says so; others may be for other backups.
	PrioritizedResources []string
	// BackupName is what restored objects are labeled with.
	BackupName string
	// RestoreName is what restored objects are labeled with.
	RestoreName string
	// RestoreUID tells this restore from all others, and StampKey, a secret of whoever
	// restores, proves what it wrote. Without both, objects of an interrupted run are not
	// recognized.
	RestoreUID string
	StampKey   []byte
	// Resumed says that an earlier attempt may have ended at any point.
	Resumed bool
	// Actions are asked after those of the engine, in this order. They are for this
	// run alone. None is asked about Namespaces, nor about objects that exist and are
	// not going to be changed.
	Actions []restoreaction.PluginAction
	// OnOperationStarted records an operation the moment one of Actions told of it, so that
	// somebody asks for its end. It is called from many goroutines at a time, with a
	// context that ends after 30 seconds and not with the run. If it fails, or is nil,
	// the operation is canceled, which is an error of its object.
	OnOperationStarted func(ctx context.Context, op Operation) error
	// DryRun writes nothing to the cluster, and calls none of Actions.
	DryRun bool
	// Progress, if set, is told how many objects there are to restore and how
	// many are done. It is called by one goroutine at a time, not for each
	// object, and must return quickly.
	Progress func(total, done int)
}

// Outcome is what became of one object.
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

// Result is what became of a restore.
type Result struct {
	// Counts has the number of objects by what became of them. In a dry run it
	// is what would become of them.
	Counts map[Outcome]int
	// Results has the warnings and errors of single objects, kinds and
	// namespaces.
	Results results.Results
	// ResourceList yields the objects, "namespace/name(created)" and so on,
	// sorted, by "group/version/Kind" ("v1/Pod" for the core group), sorted too.
	// Namespaces are those of the cluster. Objects whose kind is refused as a
	// whole, see Results and SkipReasons, are not in it. It may be gone through
	// several times, and only makes the names it yields.
	ResourceList iter.Seq2[string, []string]
	// SkipReasons says how many objects were skipped for which reason.
	SkipReasons map[string]int
	// Choices are the versions that were chosen, by "<resource>.<group>". Empty
	// unless Request.UseVersions is set.
	Choices map[string]version.Choice
	// Actions are the names of the restore actions that objects of a resource
	// concerned, by "<resource>.<group>". In a dry run those of the Request are named
	// and were not called.
	Actions map[string][]string
	// ActionReports says what the Request's actions did, in their order. Those that were
	// left out are missing.
	ActionReports []ActionReport
	// BackupLabels are what they ask to be added to the labels of the Backup.
	BackupLabels map[string]string
	// Operations are what they started and Request.Started recorded, sorted by action,
	// object and ID.
	Operations []Operation
}

// ActionReport is what one action of a Request did.
type ActionReport struct {
	// Name of the action, and of the plugin that carries it out.
	Name, Plugin string
	// Calls is how many objects it was shown, Skipped how many of them it left out,
	// and Failed how many it failed for.
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
