// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package build

// EnvoyFiles is envoyFiles for tests.
var EnvoyFiles = envoyFiles
