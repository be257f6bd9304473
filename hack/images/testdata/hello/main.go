// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command hello is the smallest program that an image can be built of.
package main

import "k8s.io/component-base/version"

func main() { println(version.Get().GitVersion) }
