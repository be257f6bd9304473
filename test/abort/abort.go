// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package abort begins a live migration on the landscape, aborts it at a given moment the way an operator does, and
// compares everything of the shoot in both seeds with what was there before.
package abort

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/steps"
	"github.com/livecpm/livecpm/test/landscape/config"
)

// Options say what is to be aborted and when.
type Options struct {
	// Landscape is the landscape that the shoot lives in.
	Landscape *config.Config
	// Namespace and Shoot name the shoot. It has to be at rest on one seed.
	Namespace, Shoot string
	// Moment is when the abort is asked for.
	Moment Moment
	// Timeout bounds each of the waits. Default: 10 minutes.
	Timeout time.Duration
	// Out takes the progress.
	Out io.Writer
}

// Result is what came of an abort.
type Result struct {
	// Moment names the moment.
	Moment string
	// At is what the condition of the step said when the abort was asked for.
	At string
	// Seconds is how long the abort took, from the request to the reason Aborted.
	Seconds float64
	// Diff has a line for each thing that is not as it was before the migration. It has to be empty.
	Diff []string
}

type run struct {
	Options
	garden client.Client
	key    client.ObjectKey
}

// Run begins a migration, aborts it, compares, and sets the seed name back. It returns when the gardenlet of the source has
// reconciled the shoot.
func Run(ctx context.Context, options Options) (*Result, error) {
	if options.Timeout == 0 {
		options.Timeout = 10 * time.Minute
	}
	r := &run{Options: options, key: client.ObjectKey{Namespace: options.Namespace, Name: options.Shoot}}
	config, err := restConfig(options.Landscape.Kubeconfig(options.Landscape.Garden.Name))
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := gardencorev1beta1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("failed to set up the scheme: %w", err)
	}
	if r.garden, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return nil, fmt.Errorf("failed to create client for the garden: %w", err)
	}

	source, destination, err := r.seeds(ctx)
	if err != nil {
		return nil, err
	}
	before, err := r.take(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.begin(ctx, destination); err != nil {
		return nil, err
	}
	result := &Result{Moment: options.Moment.Name}
	if err := r.until(ctx, "the moment "+options.Moment.Name, func(shoot *gardencorev1beta1.Shoot) bool {
		result.At = describe(shoot, options.Moment.Step)
		return options.Moment.Reached(steps.Conditions(shoot))
	}); err != nil {
		return nil, err
	}

	r.say("aborting %s: %s", options.Moment.Name, result.At)
	asked := time.Now()
	if err := r.change(ctx, func(shoot *gardencorev1beta1.Shoot) { shoot.Annotations[steps.AnnotationAbort] = "true" }); err != nil {
		return nil, fmt.Errorf("failed to ask for the abort: %w", err)
	}
	if err := r.until(ctx, "the abort to be completed", func(shoot *gardencorev1beta1.Shoot) bool {
		return steps.Aborted(steps.Conditions(shoot))
	}); err != nil {
		return nil, err
	}
	result.Seconds = time.Since(asked).Seconds()
	r.say("aborted after %.1f s", result.Seconds)

	after, err := r.take(ctx)
	if err != nil {
		return nil, err
	}
	result.Diff = before.Diff(after)
	return result, r.goBack(ctx, source)
}

// seeds returns where the shoot is and where it could go.
func (r *run) seeds(ctx context.Context) (source, destination string, err error) {
	shoot, err := r.get(ctx)
	if err != nil {
		return "", "", err
	}
	source = ptr.Deref(shoot.Status.SeedName, "")
	if source == "" || source != ptr.Deref(shoot.Spec.SeedName, "") {
		return "", "", fmt.Errorf("shoot %s is not at rest on one seed", r.key)
	}
	for _, seed := range r.Landscape.Seeds {
		if seed.Name != source {
			return source, seed.Name, nil
		}
	}
	return "", "", fmt.Errorf("the landscape has no other seed than %s", source)
}

func (r *run) begin(ctx context.Context, destination string) error {
	if err := r.change(ctx, func(shoot *gardencorev1beta1.Shoot) {
		if shoot.Annotations == nil {
			shoot.Annotations = map[string]string{}
		}
		shoot.Annotations[steps.AnnotationIntent] = "true"
		if r.Moment.PauseBefore != "" {
			shoot.Annotations[steps.AnnotationPauseBefore] = string(r.Moment.PauseBefore)
		}
	}); err != nil {
		return fmt.Errorf("failed to annotate shoot %s: %w", r.key, err)
	}
	return r.bind(ctx, destination)
}

func (r *run) bind(ctx context.Context, seed string) error {
	shoot, err := r.get(ctx)
	if err != nil {
		return err
	}
	patch := client.MergeFrom(shoot.DeepCopy())
	shoot.Spec.SeedName = &seed
	if err := r.garden.SubResource("binding").Patch(ctx, shoot, patch); err != nil {
		return fmt.Errorf("failed to bind shoot %s to seed %s: %w", r.key, seed, err)
	}
	return nil
}

// goBack sets the seed name back and waits until the gardenlet has reconciled the shoot and the agent has tidied up.
func (r *run) goBack(ctx context.Context, source string) error {
	if err := r.bind(ctx, source); err != nil {
		return err
	}
	return r.until(ctx, "the gardenlet of "+source+" to reconcile the shoot", func(shoot *gardencorev1beta1.Shoot) bool {
		operation := shoot.Status.LastOperation
		_, abort := shoot.Annotations[steps.AnnotationAbort]
		_, intent := shoot.Annotations[steps.AnnotationIntent]
		return !abort && !intent && shoot.Status.ObservedGeneration == shoot.Generation && operation != nil &&
			operation.Type == gardencorev1beta1.LastOperationTypeReconcile && operation.State == gardencorev1beta1.LastOperationStateSucceeded
	})
}

func (r *run) get(ctx context.Context) (*gardencorev1beta1.Shoot, error) {
	shoot := &gardencorev1beta1.Shoot{}
	if err := r.garden.Get(ctx, r.key, shoot); err != nil {
		return nil, fmt.Errorf("failed to get shoot %s: %w", r.key, err)
	}
	return shoot, nil
}

func (r *run) change(ctx context.Context, mutate func(*gardencorev1beta1.Shoot)) error {
	shoot, err := r.get(ctx)
	if err != nil {
		return err
	}
	patch := client.MergeFrom(shoot.DeepCopy())
	mutate(shoot)
	return r.garden.Patch(ctx, shoot, patch)
}

// until waits for the shoot and says what its conditions are when that takes too long.
func (r *run) until(ctx context.Context, what string, done func(*gardencorev1beta1.Shoot) bool) error {
	var last string
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, r.Timeout, true, func(ctx context.Context) (bool, error) {
		shoot, err := r.get(ctx)
		if err != nil {
			last = err.Error()
			return false, nil //nolint:nilerr // It is looked at again.
		}
		if now := summary(shoot); now != last {
			last = now
			r.say("%s", now)
		}
		return done(shoot), nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("failed to wait for %s; last seen: %s", what, last), err)
	}
	return nil
}

func (r *run) say(format string, args ...any) {
	_, _ = fmt.Fprintf(r.Out, time.Now().UTC().Format("15:04:05")+"  "+format+"\n", args...)
}

// summary describes the condition that somebody works on.
func summary(shoot *gardencorev1beta1.Shoot) string {
	var parts []string
	for _, condition := range steps.Conditions(shoot) {
		if condition.Status != gardencorev1beta1.ConditionTrue && condition.Reason != string(steps.ReasonPending) {
			parts = append(parts, describe(shoot, condition.Type))
		}
	}
	if operation := shoot.Status.LastOperation; len(parts) == 0 && operation != nil {
		parts = append(parts, fmt.Sprintf("%s %s", operation.Type, operation.State))
	}
	return strings.Join(parts, "; ")
}

func describe(shoot *gardencorev1beta1.Shoot, conditionType gardencorev1beta1.ConditionType) string {
	for _, condition := range steps.Conditions(shoot) {
		if condition.Type == conditionType {
			return fmt.Sprintf("%s is %s (%s): %s", condition.Type, condition.Status, condition.Reason, condition.Message)
		}
	}
	return ""
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("failed to read kubeconfig: %w", err)
	}
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	return config, nil
}
