// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/grapnel-dev/grapnel/test/perf/raw"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "limit:", err)
		stop()
		os.Exit(1)
	}
}

// run does what the command line asks and prints the result.
func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("limit", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "credentials for the API server")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.Arg(0) == "echo" {
		return raw.Echo(ctx, flags.Arg(1))
	}
	client, err := raw.NewClient(*kubeconfig)
	if err != nil {
		return err
	}
	var result any
	switch command := flags.Arg(0); command {
	case "list":
		result, err = raw.BestListing(ctx, client, flags.Args()[1:], []int{1, 2, 4, 8})
	case "run":
		result, err = answer(ctx, client, in, raw.Runs)
	case "send":
		result, err = answer(ctx, client, in, raw.Send)
	case "call":
		result, err = answer(ctx, client, in, func(ctx context.Context, _ *raw.Client, request raw.CallRequest) (raw.CallTimes, error) {
			program, err := os.Executable()
			if err != nil {
				return raw.CallTimes{}, fmt.Errorf("finding this program: %w", err)
			}
			return raw.Calls(ctx, program, request)
		})
	default:
		return errors.New("usage: limit -kubeconfig FILE list PATH... | run <REQUEST.json | send <REQUEST.json | call <REQUEST.json")
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(result)
}

// answer does what the JSON in in asks.
func answer[Q, A any](ctx context.Context, client *raw.Client, in io.Reader, do func(context.Context, *raw.Client, Q) (A, error)) (A, error) {
	var request Q
	if err := json.NewDecoder(in).Decode(&request); err != nil {
		var none A
		return none, fmt.Errorf("reading the request: %w", err)
	}
	return do(ctx, client, request)
}
