// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package apply brings manifests into a cluster by server-side apply.
package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"text/template"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldOwner is who owns what the landscape applies.
const fieldOwner = client.FieldOwner("landscape")

// RESTConfig returns the configuration of a kubeconfig file. The landscape's API servers are on the same machine: there
// is no reason to hold requests back on the client's side.
func RESTConfig(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("failed to load kubeconfig %q: %w", kubeconfig, err)
	}
	config.QPS, config.Burst = 200, 400
	return config, nil
}

// Render fills in a template of manifests. A missing value is an error.
func Render(name, text string, values any) ([]byte, error) {
	parsed, err := template.New(name).Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, fmt.Errorf("failed to parse template %s: %w", name, err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, values); err != nil {
		return nil, fmt.Errorf("failed to render template %s: %w", name, err)
	}
	return out.Bytes(), nil
}

// Decode splits a stream of YAML documents into objects.
func Decode(manifests []byte) ([]*unstructured.Unstructured, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("failed to decode manifest %d: %w", len(objects)+1, err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// Manifests applies a stream of YAML documents in their order.
func Manifests(ctx context.Context, c client.Client, manifests []byte) error {
	objects, err := Decode(manifests)
	if err != nil {
		return err
	}
	return Objects(ctx, c, objects...)
}

// Objects applies objects in their order. An object that is refused is tried again for a while: a kind or a namespace
// that was applied just before it may take a moment to be served.
func Objects(ctx context.Context, c client.Client, objects ...*unstructured.Unstructured) error {
	for _, object := range objects {
		deadline := time.Now().Add(20 * time.Second)
		for {
			err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.ForceOwnership, fieldOwner)
			if err == nil {
				break
			}
			if time.Now().After(deadline) || ctx.Err() != nil {
				return fmt.Errorf("failed to apply %s %s: %w", object.GetKind(), client.ObjectKeyFromObject(object),
					err)
			}
			time.Sleep(200 * time.Millisecond)
		}
	}
	return nil
}
