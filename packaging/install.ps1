# Installs ctxbridge {{VERSION}} into ~\.local\bin, or the folder that CTXBRIDGE_INSTALL_DIR names. Needs no administrator.
# CTXBRIDGE_BASE_URL names another place to fetch from. The archive is compared with a checksum below, wherever it comes from.
# With CTXBRIDGE_NO_PATH set to anything, the PATH stays as it is.

function Install-Ctxbridge {
    # Inside of the function, so that a session that runs this with Invoke-Expression keeps its own settings.
    Set-StrictMode -Version 2
    $ErrorActionPreference = 'Stop'
    # PowerShell 5.1 is many times slower with it.
    $ProgressPreference = 'SilentlyContinue'

    $base = if ($env:CTXBRIDGE_BASE_URL) { $env:CTXBRIDGE_BASE_URL.TrimEnd('/') } else { '{{BASE}}' }
    $dir = if ($env:CTXBRIDGE_INSTALL_DIR) { $env:CTXBRIDGE_INSTALL_DIR } else { Join-Path $HOME '.local\bin' }
    $dir = $ExecutionContext.SessionState.Path.GetUnresolvedProviderPathFromPSPath($dir)
    if ([Environment]::OSVersion.Platform -ne 'Win32NT') {
        throw "this is not Windows: run install.sh from $base"
    }

    # A process that is translated is told the machine that is played to it; the registry says the real one.
    $key = 'HKLM:\SYSTEM\CurrentControlSet\Control\Session Manager\Environment'
    $machine = (Get-ItemProperty -Path $key -Name PROCESSOR_ARCHITECTURE).PROCESSOR_ARCHITECTURE
    switch ($machine) {
        'AMD64' { $name = '{{FOLDER x86_64-pc-windows-msvc}}'; $expected = '{{SHA256 x86_64-pc-windows-msvc}}' }
        'ARM64' { $name = '{{FOLDER aarch64-pc-windows-msvc}}'; $expected = '{{SHA256 aarch64-pc-windows-msvc}}' }
        default { throw "there is no ctxbridge for Windows on $machine. This release is for: {{TARGETS}}" }
    }
    if (-not $expected) {
        throw "this release has nothing for Windows on $machine. It is for: {{TARGETS}}"
    }

    $program = Join-Path $dir 'ctxbridge.exe'
    $staged = Join-Path $dir ".ctxbridge.$PID.exe"
    $aside = Join-Path $dir ".ctxbridge.$PID.old"
    $scratch = Join-Path ([IO.Path]::GetTempPath()) "ctxbridge.$PID"
    $made = -not (Test-Path -LiteralPath $dir)
    $done = $false
    try {
        New-Item -ItemType Directory -Force -Path $scratch | Out-Null
        $archive = Join-Path $scratch "$name.zip"
        Write-Host "Fetching ctxbridge {{VERSION}} for Windows on $machine"
        # PowerShell 5.1 offers only older versions by itself.
        [Net.ServicePointManager]::SecurityProtocol = [Net.ServicePointManager]::SecurityProtocol -bor 3072
        try {
            Invoke-WebRequest -UseBasicParsing -Uri "$base/$name.zip" -OutFile $archive
        } catch {
            throw "cannot fetch $base/$name.zip: $($_.Exception.Message)"
        }
        $actual = (Get-FileHash -LiteralPath $archive -Algorithm SHA256).Hash.ToLowerInvariant()
        if ($actual -ne $expected) {
            throw "what came from $base/$name.zip is not what was released: its SHA-256 is $actual, and should be $expected"
        }
        Expand-Archive -LiteralPath $archive -DestinationPath $scratch -Force

        New-Item -ItemType Directory -Force -Path $dir | Out-Null
        # Old programs that were still running at the last installation.
        Get-ChildItem -LiteralPath $dir -Filter '.ctxbridge.*.old' -Force | Remove-Item -Force -ErrorAction SilentlyContinue
        Copy-Item -LiteralPath (Join-Path (Join-Path $scratch $name) 'ctxbridge.exe') -Destination $staged
        $version = & $staged --version
        if ($LASTEXITCODE -ne 0) {
            throw 'the program does not run here; what was there before is as it was'
        }
        # A program that runs cannot be replaced, but it can be renamed.
        if (Test-Path -LiteralPath $program) {
            Move-Item -LiteralPath $program -Destination $aside
        }
        try {
            Move-Item -LiteralPath $staged -Destination $program
        } catch {
            if (Test-Path -LiteralPath $aside) {
                Move-Item -LiteralPath $aside -Destination $program
            }
            throw
        }
        $done = $true
    } finally {
        Remove-Item -LiteralPath $scratch, $staged -Recurse -Force -ErrorAction SilentlyContinue
        if ($done) {
            Remove-Item -LiteralPath $aside -Force -ErrorAction SilentlyContinue
        } elseif ($made) {
            # Only if it is empty.
            try { [IO.Directory]::Delete($dir) } catch { }
        }
    }
    Write-Host "Installed $version as $program"
    Add-CtxbridgeToPath $dir
    Write-Host 'Next: ctxbridge setup'
}

function Add-CtxbridgeToPath([string]$dir) {
    if (($env:Path -split ';') -contains $dir) {
        return
    }
    # As it is written, with names such as %USERPROFILE%: what is written back would have lost them.
    $key = Get-Item -LiteralPath 'HKCU:\Environment'
    $path = [string]$key.GetValue('Path', '', [Microsoft.Win32.RegistryValueOptions]::DoNotExpandEnvironmentNames)
    if (($path -split ';') -contains $dir) {
        Write-Host 'That folder is on your PATH already; new terminals know it.'
    } elseif ($env:CTXBRIDGE_NO_PATH -or $path.Contains('%')) {
        Write-Host "That folder is not on your PATH. Add it in Settings, under 'Edit environment variables for your account': $dir"
    } else {
        Write-Host "Adding $dir to the PATH of your user; new terminals know it."
        [Environment]::SetEnvironmentVariable('Path', ($path.TrimEnd(';') + ';' + $dir).TrimStart(';'), 'User')
    }
}

# In the last line, so that a download that was cut off does nothing.
Install-Ctxbridge
