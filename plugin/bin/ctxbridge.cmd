@echo off
rem Runs ctxbridge for the plugin, wherever it is installed, where no shell of Unix does.
setlocal
set "data=%CTXBRIDGE_DATA_DIR%"
if not defined data set "data=%LOCALAPPDATA%\ctxbridge"
set "found="
for %%P in (ctxbridge.exe) do set "found=%%~$PATH:P"
for %%P in ("%data%\bin\ctxbridge.exe" "%USERPROFILE%\.local\bin\ctxbridge.exe" "%USERPROFILE%\.cargo\bin\ctxbridge.exe") do if not defined found if exist %%P set "found=%%~P"
if defined found goto run
rem npm puts a script on the PATH, and so may the client do with this one.
for %%P in (ctxbridge.cmd) do if /i not "%%~$PATH:P"=="%~f0" set "found=%%~$PATH:P"
if not defined found goto missing
call "%found%" %*
exit /b
:run
"%found%" %*
exit /b
:missing
echo ctxbridge is not installed, so its plugin does nothing; `npm install -g ctxbridge` installs it>&2
exit /b 127
