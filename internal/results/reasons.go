// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package results

// Reasons of problems. An object that the API server rejected has the reason of the API server, for
// example Invalid or Forbidden.
const (
	// ReasonNotBackedUp means that an object, or objects of a kind, are missing from the backup.
	ReasonNotBackedUp = "NotBackedUp"
	// ReasonNotRestored means that an object was not restored, or not completely.
	ReasonNotRestored = "NotRestored"
	// ReasonDataNotCaptured means that the backup has the objects of a volume and not its data.
	ReasonDataNotCaptured = "DataNotCaptured"
	// ReasonVeleroHooksNotRun means that pods tell Velero to run commands, and the run did not.
	ReasonVeleroHooksNotRun = "VeleroHooksNotRun"
	// ReasonEmpty means that the backup contains no object.
	ReasonEmpty = "Empty"
	// ReasonNamespaceNotFound means that an included namespace does not exist.
	ReasonNamespaceNotFound = "NamespaceNotFound"
	// ReasonBeingDeleted means that a namespace or an object was being deleted.
	ReasonBeingDeleted = "BeingDeleted"
	// ReasonNotServed means that the cluster does not serve a kind, or no longer.
	ReasonNotServed = "NotServed"
	// ReasonNoMatch means that something in the spec has no effect, because nothing matches it.
	ReasonNoMatch = "NoMatch"
	// ReasonRelatedItemNotFound means that an object that another one needs does not exist.
	ReasonRelatedItemNotFound = "RelatedItemNotFound"
	// ReasonInconsistentList means that objects of a kind are not all of the same moment.
	ReasonInconsistentList = "InconsistentList"
	// ReasonItemActionFailed means that an item action failed.
	ReasonItemActionFailed = "ItemActionFailed"
	// ReasonItemActionSkipped means that an item action is not called.
	ReasonItemActionSkipped = "ItemActionSkipped"
	// ReasonItemActionWarning means that an item action returned a warning.
	ReasonItemActionWarning = "ItemActionWarning"
	// ReasonItemDiffers means that an object exists and differs from the backup.
	ReasonItemDiffers = "ItemDiffers"
	// ReasonItemAdjusted means that an object was not restored exactly as it was.
	ReasonItemAdjusted = "ItemAdjusted"
	// ReasonUnverified means that the integrity of the archive could not be verified.
	ReasonUnverified = "Unverified"
	// ReasonLeftBehind means that a deletion could not remove something.
	ReasonLeftBehind = "LeftBehind"
	// ReasonProblemsDropped means that there are more problems than the results file lists.
	ReasonProblemsDropped = "ProblemsDropped"
	// ReasonPlanWarning means that the plan of the run has a problem that does not stop it.
	ReasonPlanWarning = "PlanWarning"
	// ReasonOperationFailed means that an operation of a plugin did not complete.
	ReasonOperationFailed = "OperationFailed"
	// ReasonOperationWarning means that a completed operation of a plugin has a warning.
	ReasonOperationWarning = "OperationWarning"
	// ReasonOperationLost means that the outcome of an operation is unknown.
	ReasonOperationLost = "OperationLost"
	// ReasonResultsNotStored means that the results were stored late.
	ReasonResultsNotStored = "ResultsNotStored"
	// ReasonUnknown means that a stored problem has no reason.
	ReasonUnknown = "Unknown"
	// ReasonFailed means that there is no backup, or that a restore ended early.
	ReasonFailed = "Failed"
)
