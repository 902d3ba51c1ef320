// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remote has what all item actions of plugins have in common when they are
// called, whatever they do with objects:
//
//	Spec     which action of which plugin, and how it is called
//	Action   one action in one run: Choose asks it once which objects concern it,
//	         Call makes one call about one object
//	Cancel   asks for the end of an operation, even of a run that has ended; Undo
//	         does so because the answer that told of it is not accepted
//
// Calls have a deadline; an action that does not answer any more is given up for the
// rest of the run (external.Guard). What goes wrong is said in one line that names the
// plugin and holds no secrets.
//
// What is sent and what may come back is the business of those who use it.
package remote
