// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sdkplugins runs plugins that are built with Grapnel's SDK under the
// published plugin manager of Velero's server.
//
// One plugin is this test program itself, when it is started under another name. It
// links Velero's packages in addition to the SDK, which an author may do as well. The other one
// is test/exampleplugin.
package sdkplugins
