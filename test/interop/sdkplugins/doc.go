// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sdkplugins runs plugins that are built with Grapnel's SDK under the plugin
// manager of Velero's server, as it is published.
//
// One plugin is this test program itself, when it is started under another name. It
// links Velero's packages beside the SDK, which an author may do as well. The other one
// is test/exampleplugin.
package sdkplugins
