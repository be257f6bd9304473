// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package manifest renders YAML templates and applies them to a cluster. Applying twice changes nothing.
package manifest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"text/template"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldOwner is who owns the fields that the landscape applies.
const fieldOwner = client.FieldOwner("landscape")

// Render fills in a template.
func Render(name, text string, values any) ([]byte, error) {
	parsed, err := template.New(name).Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, fmt.Errorf("failed to parse template %q: %w", name, err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, values); err != nil {
		return nil, fmt.Errorf("failed to render template %q: %w", name, err)
	}
	return out.Bytes(), nil
}

// Apply renders a template and applies its documents in order. A kind or namespace that is not there yet, or a webhook
// that does not answer yet, is waited for until the context ends.
func Apply(ctx context.Context, c client.Client, name, text string, values any) error {
	rendered, err := Render(name, text, values)
	if err != nil {
		return err
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(rendered), 4096)
	for {
		obj := &unstructured.Unstructured{}
		if err := decoder.Decode(&obj.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("failed to decode template %q: %w", name, err)
		}
		if len(obj.Object) == 0 {
			continue
		}
		if err := Object(ctx, c, obj); err != nil {
			return err
		}
	}
}

// Object applies one object and retries as Apply does.
func Object(ctx context.Context, c client.Client, obj *unstructured.Unstructured) error {
	for {
		attempt := obj.DeepCopy()
		err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(attempt), fieldOwner, client.ForceOwnership)
		if err == nil {
			return nil
		}
		if !transient(err) {
			return fmt.Errorf("failed to apply %s %q: %w", obj.GetKind(), client.ObjectKeyFromObject(obj), err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("failed to apply %s %q in time: %w", obj.GetKind(), client.ObjectKeyFromObject(obj), err)
		case <-time.After(time.Second):
		}
	}
}

// transient tells errors of a cluster that is still coming up from errors of the manifest.
func transient(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsInternalError(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsConflict(err)
}
