// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Webhook is the server of an admission webhook that refuses everything in its requests
// about. It serves on port 8443 with the certificate in /tls.
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"
)

// review is what is used of an AdmissionReview.
type review struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Request    *request  `json:"request,omitempty"`
	Response   *response `json:"response,omitempty"`
}

type request struct {
	UID  string `json:"uid"`
	Name string `json:"name"`
}

type response struct {
	UID     string `json:"uid"`
	Allowed bool   `json:"allowed"`
	Status  status `json:"status"`
}

type status struct {
	Message string `json:"message"`
}

func main() {
	const timeout, port = 10 * time.Second, ":8443"
	server := &http.Server{Addr: port, Handler: http.HandlerFunc(refuse), ReadTimeout: timeout, WriteTimeout: timeout}
	fmt.Fprintln(os.Stderr, server.ListenAndServeTLS("/tls/tls.crt", "/tls/tls.key"))
	os.Exit(1)
}

func refuse(w http.ResponseWriter, r *http.Request) {
	const limit = 1 << 20
	var asked review
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, limit)).Decode(&asked)
	if err != nil || asked.Request == nil {
		http.Error(w, "no AdmissionReview", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review{
		APIVersion: asked.APIVersion, Kind: asked.Kind,
		Response: &response{UID: asked.Request.UID, Status: status{Message: "the webhook has seen " + asked.Request.Name}},
	})
}
