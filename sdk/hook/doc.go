// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hook holds the request and the response that all run-once actions
// exchange with the operator: PreBackupAction, PostBackupAction, PreRestoreAction
// and PostRestoreAction.
//
// An action gets a [Request] and returns a [Response], built with [Done] or [Again], or an
// error. The limits below are checked on both sides; a response that exceeds one fails the
// action. It is not truncated silently, because a later action could not detect that data
// is missing.
//
//	hook     Request, Response and constructors
//	subject  Backup and Restore, what an action runs for
//	limits   what is allowed in requests and responses
//
// It is not specific to a version of an action's interface: the interfaces are in
// prebackupaction/v1 and its siblings.
package hook
