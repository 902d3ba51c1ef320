// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/storage"
)

// checks returns all of them. None changes the facts.
func checks() []check[*facts] {
	return []check[*facts]{
		{"The Backup is Completed, without errors or warnings", func(f *facts) error { return f.checkOutcome() }},
		{"Its conditions say that it is done and owes nothing", func(f *facts) error { return f.checkConditions() }},
		{"Its actions are Completed, one before the archive and one after it, in this order", func(f *facts) error { return f.checkActions() }},
		{"Each action has its HookRun, which belongs to the Backup and needed one attempt", func(f *facts) error { return f.checkRuns() }},
		{"The action that the annotation names was skipped", checkSkipped},
		{"Every stored file is what the manifest says", func(f *facts) error { return f.damage }},
		{"No file is missing", checkFiles},
		{"The archive has the objects of the application, and the CRD of its custom resource", checkPaths},
		{"It has nothing of other namespaces, and nothing that was excluded", checkNothingElse},
		{"The custom resource in it is the one in the cluster", checkDatabase},
		{"The number of objects in the status is the number in the archive", checkCount},
		{"What the plugin logged before the archive is in the backup's log", checkLog},
		{"What it logged afterwards is in a log of its own, with the outputs of the first half", checkPostLog},
		{"Nothing is frozen any more", func(f *facts) error { return f.checkThawed() }},
		{"The Backup waited for the one operation of a plugin, which is Completed", func(f *facts) error { return f.checkOperation() }},
		{"Its progress could be watched", func(f *facts) error { return f.checkWatched() }},
		{"The data of the claim is copied, byte by byte", func(f *facts) error { return f.checkData() }},
	}
}

func checkSkipped(f *facts) error {
	const skipped = "example.io/notify"
	if f.backup.Annotations[skipped+".postbackup"] != v1alpha1.SkipValue {
		return errors.New("the Backup has no such annotation")
	}
	for _, run := range f.runs {
		if run.Spec.ActionName == skipped {
			return fmt.Errorf("there is the HookRun %s", run.Name)
		}
	}
	if strings.Contains(strings.Join(f.postLog, ""), "Backup ended") {
		return errors.New("it has logged something")
	}
	return nil
}

func checkFiles(f *facts) error {
	var missing []error
	for _, name := range wantedFiles() {
		if !slices.ContainsFunc(f.files, func(file storedFile) bool { return file.name == name && file.size > 0 }) {
			missing = append(missing, fmt.Errorf("%s is not there, or empty", name))
		}
	}
	return errors.Join(missing...)
}

// wantedFiles returns the files that someone would look for.
func wantedFiles() []string {
	wanted := []string{"backups/" + backupName + "/velero-backup.json", "backups/" + backupName + "/" + backupName + "-grapnel.json"}
	for _, file := range []storage.File{
		storage.Contents, storage.Logs, storage.PostLogs, storage.Results, storage.ResourceList,
	} {
		wanted = append(wanted, storage.FileKey("", backupName, file))
	}
	return wanted
}

func checkPaths(f *facts) error {
	var missing []error
	for _, path := range wantedPaths() {
		if !slices.Contains(f.paths, path) {
			missing = append(missing, fmt.Errorf("%s is missing", path))
		}
	}
	// The controllers made pods with names of their own.
	const replicas = 2 + 3 + 1
	if pods := len(pathsWith(f.paths, "resources/pods/namespaces/shop-")); pods != replicas {
		missing = append(missing, fmt.Errorf("there are %d pods, want %d", pods, replicas))
	}
	return errors.Join(missing...)
}

// wantedPaths returns where the objects of the manifests are in the archive.
func wantedPaths() []string {
	return []string{
		"metadata/version",
		databasePath,
		"resources/databases.shop.example/v1-preferredversion/namespaces/shop-data/orders.json",
		"resources/customresourcedefinitions.apiextensions.k8s.io/cluster/databases.shop.example.json",
		"resources/namespaces/cluster/shop-frontend.json",
		"resources/namespaces/cluster/shop-backend.json",
		"resources/namespaces/cluster/shop-data.json",
		"resources/deployments.apps/namespaces/shop-frontend/web.json",
		"resources/deployments.apps/namespaces/shop-backend/api.json",
		"resources/deployments.apps/namespaces/shop-backend/mailer.json",
		"resources/configmaps/namespaces/shop-frontend/web.json",
		"resources/configmaps/namespaces/shop-backend/api.json",
		"resources/configmaps/namespaces/shop-data/schema.json",
		"resources/secrets/namespaces/shop-frontend/web-session.json",
		"resources/secrets/namespaces/shop-backend/payment.json",
		"resources/secrets/namespaces/shop-data/orders.json",
		"resources/services/namespaces/shop-frontend/web.json",
		"resources/services/namespaces/shop-backend/api.json",
		"resources/services/namespaces/shop-data/orders.json",
		"resources/serviceaccounts/namespaces/shop-backend/api.json",
		"resources/persistentvolumeclaims/namespaces/shop-data/orders.json",
	}
}

func checkNothingElse(f *facts) error {
	for _, object := range f.objects {
		if object.Namespace != "" && !strings.HasPrefix(object.Namespace, "shop-") || object.Resource == "events" {
			return fmt.Errorf("there is %s", object.Path())
		}
	}
	return nil
}

func checkDatabase(f *facts) error {
	if f.database == nil || !reflect.DeepEqual(f.database, f.liveDatabase) {
		return fmt.Errorf("the archive has %v, the cluster has %v", f.database, f.liveDatabase)
	}
	return nil
}

func checkCount(f *facts) error {
	p := f.backup.Status.Progress
	if n := int64(len(f.objects)); p == nil || n == 0 || p.ItemsBackedUp != n || p.TotalItems != n {
		return fmt.Errorf("the status says %+v, the archive has %d", p, n)
	}
	return nil
}

func checkLog(f *facts) error {
	return checkLine(f.log, "Froze the application", "namespaces=shop-*")
}

func checkPostLog(f *facts) error {
	if checkLine(f.log, "Thawed the application") == nil {
		return errors.New("it is in the backup's log")
	}
	// It removed one marker: until then, the application was frozen.
	return checkLine(f.postLog, "Thawed the application", "phase=Completed", "replicas=3", "removedMarkers=1")
}
